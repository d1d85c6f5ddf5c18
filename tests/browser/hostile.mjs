// Records whose values want to be more than values: nothing of them runs, nothing pushes a page out of its frame.
import { end, expect, signIn, step, token, url, visitor } from "./steps.mjs";

const sent = await fetch(`${url}/v1/main/query?q=thing&limit=100`, { headers: { authorization: `Bearer ${token}` } });
const keys = (await sent.json()).rows.map((row) => row.key);
const places = ["search?q=thing", "search?q=thing&view=json", "search?q=thing&view=plain", "search?q=thing&all=1", "home", "tags"];
for (const key of keys.slice(0, 12)) places.push(`record?collection=thing&key=${encodeURIComponent(key)}`);
for (const key of keys.slice(0, 6)) places.push(`search?q=${encodeURIComponent(key)}`);

const page = await visitor();
await step("signs in", page, () => signIn(page, token));
for (const place of places) {
  await step(`sees ${place.slice(0, 60)}`, page, async () => {
    await page.goto(`${url}/t/main/${place}`);
    await page.locator("main").waitFor();
    await page.locator("main details").evaluateAll((all) => all.forEach((own) => { own.open = true; }));
    expect(await page.evaluate(() => document.querySelectorAll("main script, main img, main style").length === 0), "no element that a value made");
  });
}

await end();

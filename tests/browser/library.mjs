// A librarian: imports by dropping a file, finds a record, sees why it is so, checks an item out and in; a reader may not.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { byKeyboard, end, expect, signIn, step, token, url, visitor } from "./steps.mjs";

const [, , , , names, items, reader, broken, long] = process.argv;
const page = await visitor();

await step("signs in", page, () => signIn(page, token));

async function drop(path, as, ends = "completed") {
  await page.getByRole("link", { name: "Imports" }).click();
  await page.getByLabel("As").selectOption({ label: as });
  // as a browser does it that is given a file by hand
  const data = await page.evaluateHandle(([name, text]) => {
    const transfer = new DataTransfer();
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    transfer.items.add(new File([bytes], name));
    return transfer;
  }, [basename(path), readFileSync(path).toString("base64")]);
  await page.dispatchEvent("#drop", "drop", { dataTransfer: data });
  await page.getByRole("button", { name: "Import" }).click();
  await page.getByText(ends, { exact: true }).first().waitFor();
}

await step("tries a file before it is imported", page, async () => {
  await page.getByRole("link", { name: "Imports" }).click();
  await page.getByLabel("As").selectOption({ label: "profile upsert" });
  await page.getByLabel("Do").selectOption({ label: "dry run with the first 1 000 documents" });
  await page.getByLabel("File").setInputFiles(names);
  await page.getByRole("button", { name: "Import" }).click();
  await page.getByRole("heading", { name: "Dry run" }).waitFor();
  expect((await page.locator("dl").innerText()).includes("400"), "400 would be created");
});

await step("drops a file and follows it to its end", page, async () => {
  await drop(names, "profile upsert");
  expect((await page.locator("#progress").innerText()).includes("400"), "400 documents");
});

await step("imports items", page, () => drop(items, "profile stock"));

await step("goes on typing with what the catalogue has", page, async () => {
  await page.getByRole("link", { name: "Search" }).click();
  await page.getByLabel("Query").pressSequentially("auth", { delay: 20 });
  await page.locator("#meant").getByRole("link", { name: "authority", exact: true }).click();
  await page.getByText("1–50 of 400").waitFor();
});

await step("turns the page", page, async () => {
  await page.getByRole("link", { name: "next" }).click();
  await page.getByText("51–100 of 400").waitFor();
});

await step("sees the place of a mistake", page, async () => {
  await page.getByLabel("Query").fill("authority heding=Smith");
  await page.keyboard.press("Enter");
  const shown = await page.getByRole("alert").innerText();
  expect(shown.includes("^") && shown.includes("did you mean"), shown);
});

await step("finds a record and why it is so", page, async () => {
  await page.getByLabel("Query").fill("authority kind=personal");
  await page.keyboard.press("Enter");
  await page.locator("tbody a").first().click();
  await page.getByRole("rowheader", { name: "heading", exact: true }).waitFor();
  await page.getByText(/Document from .* as delivered/).click();
  await page.getByText("‡a").first().waitFor();
});

await step("goes on typing with values that there are", page, async () => {
  await page.getByRole("link", { name: "Search" }).click();
  await page.getByLabel("Query").pressSequentially("item barcode=b", { delay: 20 });
  await page.locator("#meant").getByRole("link", { name: "barcode=b2" }).waitFor();
});

await step("narrows by what is counted", page, async () => {
  await page.goto(`${url}/t/main/search?q=authority`);
  const kinds = page.getByLabel("Counts by field").locator("section", { has: page.getByRole("heading", { name: "kind" }) });
  const first = kinds.locator("li").first();
  const number = (await first.locator(".quiet").innerText()).trim();
  await first.getByRole("link").click();
  await page.getByText(new RegExp(`(of|^)\\s*${number}( found)?$`)).first().waitFor();
  // and takes it back
  await page.getByRole("link", { name: /^without kind=/ }).click();
  await page.getByText("1–50 of 400").waitFor();
});

await step("cancels a long import that it follows", page, async () => {
  await page.getByRole("link", { name: "Imports" }).click();
  await page.getByLabel("As").selectOption({ label: "profile upsert" });
  await page.getByLabel("File").setInputFiles(long);
  await page.getByRole("button", { name: "Import" }).click({ noWaitAfter: true });
  await page.locator("progress").waitFor({ timeout: 60_000 });
  const done = async () => Number(await page.locator("progress").getAttribute("value").catch(() => 0));
  const first = await done();
  for (let round = 0; round < 100 && (await done()) <= first; round++) await page.waitForTimeout(100);
  expect((await done()) > first, "it goes on before one's eyes");
  await page.getByText("cancel it").click();
  await page.getByRole("button", { name: "yes, cancel it" }).click();
  await page.getByText(/cancelled by/).waitFor();
  await page.getByText("cancelled", { exact: true }).first().waitFor();
});

await step("reads a document that failed", page, async () => {
  await drop(broken, "profile upsert", "completed with errors");
  await page.getByRole("link", { name: "failures and warnings only" }).click();
  await page.getByRole("link", { name: "as read" }).first().click();
  await page.getByRole("heading", { name: /Document \d+/ }).waitFor();
  await page.getByText("No Number Given").waitFor();
});

await step("checks an item out", page, async () => {
  await page.goto(`${url}/t/main/record?collection=item&key=b1`);
  await page.getByLabel("patron").fill("p 7");
  await page.getByRole("button", { name: "check out" }).click();
  await page.locator("dd").getByText("checked out").waitFor();
});

await step("is told why it cannot go out again", page, async () => {
  await page.getByText(/Not now: check out, because .*item is checked out/).waitFor();
  expect((await page.getByRole("button", { name: "check out" }).count()) === 0, "no button for what cannot be done");
});

await step("checks it in", page, async () => {
  await page.goto(`${url}/t/main/record?collection=item&key=b1`);
  await page.getByRole("button", { name: "check in" }).click();
  await page.locator("dd").getByText("available").waitFor();
  expect((await page.locator("ol.log li").count()) === 2, "two entries of the log");
});

for (const place of ["home", "search?q=authority", "record?collection=item&key=b1", "import", "job?id=1", "tokens", "metrics"]) await byKeyboard(page, place);

const other = await visitor({ colorScheme: "dark", viewport: { width: 390, height: 800 } });
await step("a reader sees no button they may not press", other, async () => {
  await signIn(other, reader);
  await other.goto(`${url}/t/main/record?collection=item&key=b1`);
  await other.getByRole("heading", { name: "State" }).waitFor();
  expect((await other.getByRole("button", { name: "check out" }).count()) === 0, "no button to check out");
  await other.goto(`${url}/t/main/import`);
  expect((await other.locator("input[type=file]").count()) === 0, "no file can be given");
  const wide = await other.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(wide <= 0, `the page is ${wide} px too wide`);
});

await step("and is refused what they send all the same", other, async () => {
  const status = await other.evaluate(async () => {
    const mark = document.querySelector("[name=csrf]").value;
    const form = new URLSearchParams({ csrf: mark, collection: "item", key: "b1", transition: "check_out", "arg.patron": "x" });
    return (await fetch("/t/main/transition", { method: "POST", body: form })).status;
  });
  expect(status === 403, status);
});

await step("signs out", page, async () => {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
});

const plain = await visitor({ javaScriptEnabled: false });
plain.evaluate = async () => ({ violations: [] });
await step("all of it is there without scripts", plain, async () => {
  await signIn(plain, token);
  await plain.getByRole("link", { name: "Imports" }).click();
  await plain.getByLabel("File").setInputFiles(items);
  await plain.getByLabel("As").selectOption({ label: "profile stock" });
  await plain.getByRole("button", { name: "Import" }).click();
  await plain.getByRole("heading", { name: /Import \d+/ }).waitFor();
});

await end();

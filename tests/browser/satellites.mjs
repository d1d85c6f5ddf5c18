// A mission operator: what was planned, what of it is there, where the gaps are, when an interface was up.
import { byKeyboard, end, expect, signIn, step, token, url, visitor } from "./steps.mjs";

const page = await visitor();
await step("signs in", page, () => signIn(page, token));

await step("sees what is missing", page, async () => {
  await page.getByRole("link", { name: "Coverage" }).click();
  await page.getByRole("link", { name: "Partial", exact: true }).click();
  await page.locator("svg.bar").first().waitFor();
});

await step("goes from a day to its rows", page, async () => {
  await page.goto(`${url}/t/main/coverage?collection=datatake.completeness_s1`);
  const day = page.locator("table.calendar td.day a").first();
  await page.locator("details", { has: page.locator("table.calendar") }).evaluate((own) => { own.open = true; });
  await day.click();
  await page.getByRole("heading", { name: "Search" }).waitFor();
  await page.locator("tbody a").first().waitFor();
});

await step("opens a gap on a timeline", page, async () => {
  await page.goto(`${url}/t/main/search?q=${encodeURIComponent("datatake.completeness_s1 group=IW_RAW__0S status=Partial")}`);
  await page.locator("tbody a").first().click();
  await page.getByRole("rowheader", { name: "datatake", exact: true }).locator("xpath=..").getByRole("link").click();
  await page.getByRole("link", { name: /datatake.completeness_s1/ }).click();
  expect(/\d\d:\d\d:\d\d–\d\d:\d\d:\d\d/.test(await page.locator("span.gap").first().innerText()), "a gap is named");
  await page.locator("svg.timeline a:has(rect.gone)").first().click();
  await page.getByRole("rowheader", { name: "gaps" }).waitFor();
});

await step("opens what is there on a timeline", page, async () => {
  await page.goBack();
  await page.locator("svg.timeline a:has(rect.there)").first().click();
  await page.getByRole("rowheader", { name: "product_type", exact: true }).waitFor();
});

await step("sees when an interface was up", page, async () => {
  await page.goto(`${url}/t/main/coverage?collection=interface.status`);
  await page.locator("svg.timeline a:has(rect.good)").first().click();
  await page.getByRole("rowheader", { name: "interface", exact: true }).waitFor();
});

for (const place of ["coverage?collection=interface.status", "coverage?collection=datatake.sensing_s1"]) await byKeyboard(page, place);

await end();

// The main pages as pictures, light and dark.
import { createRequire } from "node:module";

const from = createRequire(process.env.STOOK_TEST_BROWSER + "/package.json");
const { chromium } = from("playwright-core");
const [, , authorities, machines, sentinel, guarded, out, admin] = process.argv;
const browser = await chromium.launch({ executablePath: process.env.STOOK_TEST_CHROMIUM, args: ["--no-sandbox"] });

async function first(url, query) {
  const rows = (await (await fetch(`${url}/v1/main/query?limit=1&q=${encodeURIComponent(query)}`)).json()).rows;
  return encodeURIComponent(rows[0].key);
}
const conflict = await first(sentinel, "product satellite=S1A product_type=IW_RAW__0S");
const gap = (await (await fetch(`${sentinel}/v1/main/query?limit=1&q=${encodeURIComponent("datatake.completeness_s1 group=IW_RAW__0S status=Partial")}`)).json()).rows[0].datatake;
const pages = {
  home: `${sentinel}/t/main/home`,
  search: `${authorities}/t/main/search?q=${encodeURIComponent("authority changed>2015-01-01")}`,
  mistake: `${authorities}/t/main/search?q=${encodeURIComponent("authorty heading=Smith*")}`,
  record: `${sentinel}/t/main/record?collection=product&key=${conflict}`,
  machine: `${machines}/t/main/record?collection=machine&key=node-00000001`,
  tags: `${machines}/t/main/tags`,
  coverage: `${sentinel}/t/main/coverage?collection=datatake.completeness_s1&parent=${gap}`,
  calendar: `${sentinel}/t/main/coverage?collection=datatake.completeness_s1`,
  interfaces: `${sentinel}/t/main/coverage?collection=interface.status`,
  import: `${authorities}/t/main/import`,
  journal: `${authorities}/t/main/job?id=1`,
  metrics: `${sentinel}/t/main/metrics`,
  lab: `${authorities}/t/main/lab?run=after`,
  beside: `${authorities}/t/main/lab?run=before&beside=after`,
  tokens: `${guarded}/t/main/tokens`,
};
// a curve needs two points
await new Promise((done) => setTimeout(done, 22000));
for (const scheme of ["light", "dark"]) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width: 1120, height: 720 } });
  const page = await context.newPage();
  for (const [name, url] of Object.entries(pages)) {
    if (name === "tokens") {
      await page.goto(`${guarded}/sign-in`);
      await page.getByLabel("Token").fill(admin);
      await page.getByRole("button", { name: "Sign in" }).click();
    }
    await page.goto(url, { waitUntil: "networkidle" });
    await page.screenshot({ path: `${out}/${name}-${scheme}.png` });
  }
  await context.close();
}
await browser.close();

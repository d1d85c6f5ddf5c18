// What browser tests share: a browser, steps with names, and axe on every page they come to.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const from = createRequire(process.env.STOOK_TEST_BROWSER + "/package.json");
const { chromium } = from("playwright-core");
const axe = readFileSync(from.resolve("axe-core/axe.min.js"), "utf8");

export const url = process.argv[2];
export const token = process.argv[3];

const browser = await chromium.launch({ executablePath: process.env.STOOK_TEST_CHROMIUM, args: ["--no-sandbox"] });
const troubles = [];

// a visitor of their own, light or dark
export async function visitor(options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  page.on("pageerror", (error) => troubles.push(`error on ${page.url()}: ${error.message}`));
  page.on("dialog", (dialog) => { troubles.push(`a dialog on ${page.url()}`); dialog.dismiss(); });
  page.on("console", (message) => { if (message.type() === "error" && !message.text().includes("status of 4")) troubles.push(`${page.url()}: ${message.text()}`); });
  return page;
}

export async function signIn(page, secret) {
  await page.goto(url + "/");
  await page.getByLabel("Token").fill(secret);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Home" }).waitFor();
}

// whether a page fits a telephone
async function fits(name, page) {
  const size = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 740 });
  const widths = await page.evaluate(() => `${document.documentElement.scrollWidth} ${document.documentElement.clientWidth}`);
  // nothing answers where scripts are off
  const [whole, seen] = String(widths).split(" ").map(Number);
  if (whole > seen) troubles.push(`${name}: ${page.url()} is ${whole} wide in a window of ${seen}`);
  await page.setViewportSize(size);
}

// what axe finds on a page; one that loads itself again meanwhile is judged again
async function judged(page, tries = 3) {
  try {
    await page.waitForLoadState();
    await page.evaluate(axe);
    return await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
  } catch (error) {
    if (tries > 1) return judged(page, tries - 1);
    throw error;
  }
}

// a step, then what axe finds on the page it leads to
export async function step(name, page, work) {
  try {
    await work();
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme });
      const found = await judged(page);
      for (const one of found.violations) troubles.push(`${name}, ${colorScheme}: ${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
    }
    await fits(name, page);
    console.log(`ok ${name}`);
  } catch (error) {
    troubles.push(`${name} at ${page.url()}: ${error.message} ${error.cause ?? ""}\n${(await page.locator("main").innerText().catch(() => "")).slice(0, 800)}`);
  }
}

// the focus comes to everything that can be used, and is seen there
export async function byKeyboard(page, place) {
  await step(`goes through ${place} by keyboard`, page, async () => {
    await page.goto(`${url}/t/main/${place}`);
    await page.waitForLoadState("networkidle");
    const wanted = await page.evaluate(() => {
      const all = [...document.querySelectorAll("a[href]:not([tabindex='-1']), button, input:not([type=hidden]), select, textarea, summary")];
      return all.filter((one) => one.checkVisibility({ checkVisibilityCSS: true }) && !one.disabled).map((one, place) => (one.dataset.place = place));
    });
    await page.evaluate(() => document.activeElement.blur());
    const seen = new Set();
    for (let presses = 0; presses < wanted.length + 40 && seen.size < wanted.length; presses++) {
      await page.keyboard.press("Tab");
      const [number, outline] = await page.evaluate(() => [document.activeElement.dataset.place, getComputedStyle(document.activeElement).outlineStyle]);
      if (number !== undefined) seen.add(number);
      expect(number === undefined || outline !== "none", `the focus is seen on ${await page.evaluate(() => document.activeElement.outerHTML.slice(0, 200))}`);
    }
    expect(seen.size === wanted.length, `the focus came to ${seen.size} of ${wanted.length}`);
  });
}

export function expect(is, what) {
  if (!is) throw new Error(`not so: ${what}`);
}

export async function end() {
  await browser.close();
  for (const trouble of troubles) console.log(`TROUBLE ${trouble}`);
  process.exit(troubles.length === 0 ? 0 : 1);
}

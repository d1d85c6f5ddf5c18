// A steward settles a disagreement on the page of a record; a reader sees it and may not.
import { byKeyboard, end, expect, signIn, step, token, url, visitor } from "./steps.mjs";

const [, , , , reader, pictures] = process.argv;
const page = await visitor();
const place = "record?collection=book&key=b1";
const row = (of, name) => of.getByRole("row").filter({ has: of.getByRole("rowheader", { name, exact: true }) });
const answer = async () => (await fetch(`${url}/v1/main/book/b1/explain`, { headers: { authorization: `Bearer ${token}` } })).json();

await step("signs in", page, () => signIn(page, token));

await step("finds the book by its title", page, async () => {
  await page.goto(`${url}/t/main/search?q=book`);
  await page.locator("tbody").getByRole("link", { name: /THE\s+SEA/ }).click();
  await page.getByRole("heading", { level: 1, name: /THE\s+SEA/ }).waitFor();
});

await step("sees that the sources disagree", page, async () => {
  await page.goto(`${url}/t/main/${place}`);
  await row(page, "pages").getByText("the sources disagree").waitFor();
  if (pictures) {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: `${pictures}/record-${colorScheme}.png`, fullPage: true });
    }
  }
});

await step("takes the value of one of them", page, async () => {
  await page.getByRole("button", { name: "take the value of library for pages" }).click();
  await row(page, "pages").getByText("until a source gives another value").waitFor();
  expect((await row(page, "pages").getByText("the sources disagree").count()) === 0, "the conflict is accepted");
  const { pages } = (await answer()).fields;
  expect(pages.value === 310 && pages.correction.corrects.shop === 312, JSON.stringify(pages));
});

await step("takes it back", page, async () => {
  await page.getByRole("button", { name: "take back the edit of pages" }).click();
  await row(page, "pages").getByText("the sources disagree").waitFor();
});

await step("is told what is wrong, and keeps what was typed", page, async () => {
  await row(page, "published").getByRole("link", { name: "edit published" }).click();
  await page.getByLabel("Value", { exact: true }).fill("in May");
  await page.getByLabel("Why").fill("as the title page has it");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").waitFor();
  expect((await page.getByLabel("Why").inputValue()) === "as the title page has it", "the reason is still there");
  expect((await answer()).fields.published.value === "1998", "nothing was written");
});

await step("edits a value with a reason", page, async () => {
  await page.getByLabel("Value", { exact: true }).fill("1998-05");
  if (pictures) await page.screenshot({ path: `${pictures}/edit-light.png`, fullPage: true });
  await page.getByRole("button", { name: "Save" }).click();
  await row(page, "published").getByText("as the title page has it").waitFor();
});

await step("gives a value to a field that has none", page, async () => {
  await page.getByLabel("A field without a value").selectOption("notes");
  await page.getByRole("button", { name: "edit", exact: true }).click();
  await page.getByLabel("Value", { exact: true }).fill("signed\nworn");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("rowheader", { name: "notes" }).waitFor();
  expect(JSON.stringify((await answer()).fields.notes.value) === '["signed","worn"]', "two notes");
});

await step("does not overwrite what was not seen", page, async () => {
  await page.goto(`${url}/t/main/edit?collection=book&key=b1&field=pages`);
  const delivered = await fetch(`${url}/v1/main/deliver?source=shop`, { method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: '{"isbn": "b1", "pages": 333}' });
  expect(delivered.ok, `${delivered.status} ${await delivered.text()}`);
  await page.getByRole("button", { name: "take the value of library for pages" }).click();
  await page.getByText(/has got other values since you saw it/).waitFor();
  await page.getByText("333").first().waitFor();
  expect((await answer()).fields.pages.correction === undefined, "nothing was written");
});

await byKeyboard(page, place);
await byKeyboard(page, "edit?collection=book&key=b1&field=pages");

const phone = await visitor({ colorScheme: "dark", viewport: { width: 390, height: 800 } });
await step("a reader sees who edited, and no button", phone, async () => {
  await signIn(phone, reader);
  await phone.goto(`${url}/t/main/${place}`);
  await phone.getByText("as the title page has it").first().waitFor();
  if (pictures) await phone.screenshot({ path: `${pictures}/record-phone.png`, fullPage: true });
  for (const name of [/^take/, /^keep/, /^edit/]) {
    expect((await phone.getByRole("button", { name }).count()) + (await phone.getByRole("link", { name }).count()) === 0, `nothing to press: ${name}`);
  }
});

await step("and is refused what they send all the same", phone, async () => {
  const status = await phone.evaluate(async () => {
    const csrf = document.querySelector("[name=csrf]").value;
    const form = new URLSearchParams({ csrf, collection: "book", key: "b1", field: "pages", do: "back", seen: "x" });
    const wrong = (await fetch("/t/main/edit/change", { method: "POST", body: form })).status;
    form.set("csrf", "wrong");
    return [wrong, (await fetch("/t/main/edit/change", { method: "POST", body: form })).status].join();
  });
  expect(status === "403,403", status);
});

const plain = await visitor({ javaScriptEnabled: false });
plain.evaluate = async () => ({ violations: [] });
await step("all of it is there without scripts", plain, async () => {
  await signIn(plain, token);
  await plain.goto(`${url}/t/main/${place}`);
  await plain.getByRole("button", { name: "take the value of library for pages" }).click();
  await row(plain, "pages").getByText("until a source gives another value").waitFor();
});

await step("undoes an import after a second click", page, async () => {
  await page.goto(`${url}/t/main/job?id=1`);
  await page.getByText("can be undone until").waitFor();
  expect((await page.getByRole("button", { name: "yes, undo this import" }).count()) === 0, "not by one click");
  await page.locator("summary", { hasText: "undo" }).click();
  await page.getByRole("button", { name: "yes, undo this import" }).click();
  await page.getByText("undoes").waitFor();
  await page.getByText("completed", { exact: true }).first().waitFor();
  const { fields } = await answer();
  // only the library said the title; what was edited stays
  expect(!fields.title && fields.published.value === "1998-05", JSON.stringify(fields));
  await page.goto(`${url}/t/main/job?id=1`);
  await page.getByText("undone by").waitFor();
  expect((await page.getByText("can be undone until").count()) === 0, "only once");
});

await end();

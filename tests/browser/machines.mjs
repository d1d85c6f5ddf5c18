// A data centre: makes a tag, watches it fill, makes a token and revokes it.
import { byKeyboard, end, expect, signIn, step, token, url, visitor } from "./steps.mjs";

const page = await visitor();
await step("signs in", page, () => signIn(page, token));

await step("makes a tag", page, async () => {
  await page.getByRole("link", { name: "Tags" }).click();
  await page.getByText("New tag").click();
  await page.getByLabel("Name", { exact: true }).fill("seen-intel");
  await page.getByLabel("XPath over the record's document").fill("//node[@class='processor']/vendor = 'Intel Corp.'");
  await page.getByText(/of the first 60 records would carry it/).waitFor();
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("link", { name: "seen-intel" }).waitFor();
});

await step("watches it fill", page, async () => {
  const row = page.getByRole("row", { name: /seen-intel/ });
  for (let round = 0; round < 60 && !(await row.innerText()).includes("completed"); round++) {
    await page.waitForTimeout(250);
    await page.reload();
  }
  expect(Number((await row.locator("td.number").innerText()).replace(/\D/g, "")) > 0, "machines carry it");
});

await step("finds what carries it", page, async () => {
  await page.getByRole("link", { name: "seen-intel" }).click();
  await page.locator("tbody a").first().click();
  await page.getByLabel("Tags").getByRole("link", { name: "seen-intel" }).waitFor();
});

await step("changes the definition and sees what that does", page, async () => {
  await page.getByRole("link", { name: "Tags" }).click();
  const row = page.getByRole("row", { name: /seen-intel/ });
  await row.getByText("edit").click();
  await row.getByLabel("XPath over the record's document").fill("//node[@class='processor']");
  const promised = (await row.getByText(/of the first 60 records would carry it/).innerText()).split(" ")[0];
  await row.getByRole("button", { name: "Change" }).click();
  for (let round = 0; round < 60 && (await row.locator("td.number").innerText()) !== promised; round++) {
    await page.waitForTimeout(250);
    await page.reload();
  }
  expect((await row.locator("td.number").innerText()) === promised, "as many machines carry it as was promised");
});

await step("sees what a query would tag", page, async () => {
  await page.getByRole("link", { name: "Tags" }).click();
  await page.getByText("New tag").click();
  const query = page.getByLabel("or a query");
  await query.fill("cpu_count>0");
  await page.getByText(/\d+ of 60 records would carry it/).waitFor();
  await query.fill("cpu_count>0 | count");
  await page.getByRole("alert").waitFor();
});

await step("is told what is wrong with a definition", page, async () => {
  await page.getByRole("link", { name: "Tags" }).click();
  await page.getByText("New tag").click();
  await page.getByLabel("Name", { exact: true }).fill("broken");
  await page.getByLabel("XPath over the record's document").last().fill("//node[");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("alert").waitFor();
});

async function changeAll(query, what, tag) {
  await page.goto(`${url}/t/main/search?q=${encodeURIComponent(query)}`);
  await page.getByText("Change all that are found").click();
  await page.getByLabel("What").selectOption({ label: what });
  if (tag) await page.getByLabel("Tag", { exact: true }).fill(tag);
  await page.getByRole("button", { name: "Preview" }).click();
}

await step("sees which machines would be acquired", page, () => changeAll("machine status=Ready", "acquire"));

await step("acquires all of them", page, async () => {
  await page.getByText(/^Make the transition acquire of \d+ of machine/).waitFor();
  await page.getByRole("button", { name: /^Change \d+$/ }).click();
  await page.getByText(/\d+ changed/).waitFor();
});

await step("is told which cannot be acquired, and why", page, async () => {
  await changeAll("machine status=Allocated", "acquire");
  await page.getByRole("button", { name: /^Change \d+$/ }).click();
  await page.getByText(/\d+ not changed: machine is Allocated/).waitFor();
});

await step("tags all machines that a search finds", page, async () => {
  await page.getByRole("link", { name: "Tags" }).click();
  await page.getByText("New tag").click();
  await page.getByLabel("Name", { exact: true }).last().fill("lot-7");
  await page.getByRole("button", { name: "Create" }).click();
  await changeAll("machine status=Allocated", "add a tag", "lot-7");
  await page.getByRole("button", { name: /^Change \d+$/ }).click();
  await page.getByText(/\d+ changed/).waitFor();
  await page.goto(`${url}/t/main/search?q=${encodeURIComponent("machine tag=lot-7")}`);
  await page.locator("tbody a").first().waitFor();
});

await step("looks at the metrics", page, async () => {
  await page.getByRole("link", { name: "Metrics" }).click();
  await page.getByRole("rowheader", { name: "GET /v1/{tenant}", exact: true }).waitFor();
  for (let round = 0; round < 60 && (await page.locator("figure.picture svg").count()) === 0; round++) {
    await page.waitForTimeout(500);
    await page.reload();
  }
  await page.locator("figcaption", { hasText: "Requests" }).waitFor();
});

await step("compares two runs of the lab", page, async () => {
  await page.getByRole("link", { name: "Lab", exact: true }).click();
  await page.getByRole("link", { name: "before" }).click();
  await page.locator(".picture svg").first().waitFor();
  await page.getByText("Compare with another run").click();
  await page.getByRole("link", { name: "after" }).click();
  await page.getByRole("columnheader", { name: "delta %" }).waitFor();
  // the times of both in one picture
  const names = page.locator(".picture svg text");
  expect((await names.allTextContents()).join(" ").match(/before.*after/s), "a picture of both");
});

await step("makes a token, which is shown once", page, async () => {
  await page.getByRole("link", { name: "Tokens" }).click();
  await page.getByLabel("Name", { exact: true }).fill("a robot");
  await page.getByRole("button", { name: "Create" }).click();
  expect((await page.locator("pre.secret").innerText()).startsWith("stook_"), "a secret");
  await page.getByRole("link", { name: "Back to tokens" }).click();
});

await step("sees what comes of sending the form again", page, async () => {
  const status = await page.evaluate(async () => {
    const form = new URLSearchParams(new FormData(document.querySelector("form.stacked")));
    form.set("name", "a second robot");
    const send = () => fetch("/t/main/tokens/change", { method: "POST", body: form });
    return [(await send()).status, (await send()).status];
  });
  expect(status[0] === 201 && status[1] === 409, status);
});

await step("revokes it", page, async () => {
  await page.getByText("revoke a robot").click();
  await page.getByRole("button", { name: "yes, revoke a robot" }).click();
  await page.getByText("revoke a robot").waitFor({ state: "detached" });
});

await step("deletes a tag, after a question", page, async () => {
  await page.getByRole("link", { name: "Tags" }).click();
  await page.getByText("delete seen-intel").click();
  await page.getByRole("button", { name: "yes, delete seen-intel" }).click();
  await page.getByText("delete seen-intel").waitFor({ state: "detached" });
});

for (const place of ["tags", "lab", "lab?run=before&beside=after", "tokens", "metrics"]) await byKeyboard(page, place);

await end();

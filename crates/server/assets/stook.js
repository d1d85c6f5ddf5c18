// What pages do beyond links and forms. Without it they work, too.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  // a job that runs, or services that are asked, tell when there is news
  const progress = document.querySelector("[data-events]");
  if (progress) {
    const events = new EventSource(progress.dataset.events);
    let waiting = false;
    const tell = () => {
      if (waiting) return;
      waiting = true;
      setTimeout(() => { waiting = false; htmx.trigger(progress, "news"); }, 250);
    };
    events.addEventListener("progress", tell);
    events.addEventListener("ended", () => { events.close(); location.reload(); });
  }
  // a file may be dropped
  const drop = document.getElementById("drop");
  if (drop) {
    const file = drop.querySelector("input[type=file]");
    for (const name of ["dragover", "dragleave", "drop"]) {
      drop.addEventListener(name, (event) => {
        event.preventDefault();
        drop.classList.toggle("over", name === "dragover");
        if (name === "drop" && event.dataTransfer.files.length > 0) {
          file.files = event.dataTransfer.files;
        }
      });
    }
  }
  // a slash leads to the query
  document.addEventListener("keydown", (event) => {
    const query = document.getElementById("q");
    if (event.key === "/" && query && !event.target.closest("input, textarea, select")) {
      event.preventDefault();
      query.focus();
    }
  });
});

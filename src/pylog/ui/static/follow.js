// Follows a topic: rows that the server has made come in front of the table. Without script there is no such button.
"use strict";
(() => {
  const ROWS_MAX = 500;
  const PAUSE_MS = 500;
  const PAUSE_MS_WITHOUT_ANSWER = 2000;
  const live = document.getElementById("live");
  const rows = document.getElementById("records");
  const button = live.querySelector("button");
  const status = live.querySelector("[role=status]");
  let looking = null;
  let count = 0;
  let skipped = 0;
  let damage = "";

  function stop(text) {
    looking.abort();
    looking = null;
    button.textContent = "Follow live";
    button.setAttribute("aria-pressed", "false");
    status.textContent = text;
  }

  function add(said) {
    const made = document.createElement("template");
    made.innerHTML = said.html;
    rows.prepend(made.content);
    while (rows.rows.length > ROWS_MAX) rows.deleteRow(-1);
    count += said.count;
    skipped += said.skipped;
    damage = said.damage || damage;
    const text = `${count} new${skipped ? `, ${skipped} skipped` : ""}${damage ? `. Damage: ${damage}` : ""}`;
    // Each change is read out by a screen reader.
    if (status.textContent !== text) status.textContent = text;
  }

  // What the page of an error says.
  function refusal(page) {
    const said = new DOMParser().parseFromString(page, "text/html").querySelector("[role=alert]");
    return said ? said.textContent : "The server does not answer";
  }

  async function follow(signal) {
    const address = new URL(live.dataset.follow, location.href);
    while (!signal.aborted) {
      let pause = PAUSE_MS;
      try {
        const answer = await fetch(address, { signal });
        if (!answer.ok) {
          const text = refusal(await answer.text());
          if (!signal.aborted) stop(text);
          return;
        }
        const said = await answer.json();
        if (signal.aborted) return;
        address.searchParams.set("after", said.after);
        add(said);
      } catch {
        if (signal.aborted) return;
        status.textContent = "Connecting again";
        pause = PAUSE_MS_WITHOUT_ANSWER;
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  function start() {
    count = skipped = 0;
    damage = "";
    looking = new AbortController();
    button.textContent = "Stop";
    button.setAttribute("aria-pressed", "true");
    status.textContent = "Waiting for records";
    follow(looking.signal);
  }

  button.addEventListener("click", () => { if (looking) stop(`Stopped after ${count} new`); else start(); });
  live.hidden = false;
})();

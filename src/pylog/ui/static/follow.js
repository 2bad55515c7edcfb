// Follows a topic: rows that the server has made come in front of the table. Without script there is no such button.
"use strict";
(() => {
  const ROWS_MAX = 500;
  const live = document.getElementById("live");
  const rows = document.getElementById("records");
  const button = live.querySelector("button");
  const status = live.querySelector("[role=status]");
  let source = null;
  let count = 0;
  let skipped = 0;
  let damage = "";

  function stop(text) {
    source.close();
    source = null;
    button.textContent = "Follow live";
    button.setAttribute("aria-pressed", "false");
    status.textContent = text;
  }

  function add(event) {
    const said = JSON.parse(event.data);
    const made = document.createElement("template");
    made.innerHTML = said.html;
    rows.prepend(made.content);
    while (rows.rows.length > ROWS_MAX) rows.deleteRow(-1);
    count += said.count;
    skipped += said.skipped;
    damage = said.damage || damage;
    status.textContent = `${count} new${skipped ? `, ${skipped} skipped` : ""}${damage ? `. Damage: ${damage}` : ""}`;
  }

  function start() {
    count = skipped = 0;
    damage = "";
    source = new EventSource(live.dataset.follow);
    source.addEventListener("records", add);
    source.addEventListener("ended", (event) => stop(JSON.parse(event.data)));
    source.onopen = () => { status.textContent = "Waiting for records"; };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) stop("The server does not answer");
      else status.textContent = "Connecting again";
    };
    button.textContent = "Stop";
    button.setAttribute("aria-pressed", "true");
    status.textContent = "Waiting for records";
  }

  button.addEventListener("click", () => { if (source) stop(`Stopped after ${count} new`); else start(); });
  live.hidden = false;
})();

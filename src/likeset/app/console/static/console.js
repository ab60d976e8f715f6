"use strict";
// Pages work without this. With it, the parts marked data-live follow what happens, a head can be copied, and a button
// that takes a while says so.
(() => {
  const news = document.getElementById("news");
  let version = document.body.dataset.version;
  let busy = false;
  let stream = null;

  async function refresh(now) {
    if (busy || now === version) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html", "x-likeset-refresh": "1" } });
      if (!answer.ok) {
        news.textContent = "Your session has ended; ask for a new link.";
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(part.id);
        if (fresh && !part.contains(document.activeElement) && fresh.innerHTML !== part.innerHTML) {
          part.replaceWith(document.importNode(fresh, true));
          news.textContent = "Something happened; this page shows it.";
        }
      }
      version = now;
    } finally {
      busy = false;
    }
  }

  // Only the page that is looked at listens: a browser has few connections to one address.
  function listen() {
    if (stream) stream.close();
    stream = document.hidden ? null : new EventSource("/events");
    if (stream) stream.addEventListener("version", (event) => refresh(event.data));
  }

  // A page that answers a form has another address than what it shows: it stays as it is.
  if (document.querySelector("[data-live]") && !document.body.dataset.answer) {
    listen();
    document.addEventListener("visibilitychange", listen);
    addEventListener("pagehide", () => stream && stream.close());
  }
  for (const field of document.querySelectorAll("[data-copy]")) {
    field.addEventListener("focus", () => field.select());
  }
  for (const form of document.querySelectorAll("[data-wait]")) {
    form.addEventListener("submit", () => {
      news.textContent = form.dataset.wait;
      for (const button of form.querySelectorAll("button")) button.disabled = true;
    });
  }
  // Somebody came back to a page that was left waiting.
  addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("[data-wait] button")) button.disabled = false;
  });
})();

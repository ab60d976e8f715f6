"use strict";
// Pages work without this. With it, the parts marked data-live follow what happens, and a head can be copied.
(() => {
  const news = document.getElementById("news");
  let version = document.body.dataset.version;
  let busy = false;

  async function refresh(now) {
    if (busy || now === version) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
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

  // A page that answers a form has another address than what it shows: it stays as it is.
  if (document.querySelector("[data-live]") && !document.body.dataset.answer) {
    const stream = new EventSource("/events");
    stream.addEventListener("version", (event) => refresh(event.data));
    addEventListener("pagehide", () => stream.close());
  }
  for (const field of document.querySelectorAll("[data-copy]")) {
    field.addEventListener("focus", () => field.select());
  }
})();

/* A browser starts no worker for pages that were opened from a disk (file:). The search then runs in a hidden frame.
   The theme's offline plugin would fetch such a script from elsewhere; it leaves that where one of this name is given. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.ready = new Promise(ready => {
        this.frame.addEventListener("load", () => {
          const inside = this.frame.contentWindow
          inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = inside.document.createElement("script")
          script.src = url
          script.addEventListener("load", () => ready(inside))
          inside.document.body.append(script)
        }, { once: true })
      })
      document.body.append(this.frame)
    }

    postMessage(data) {
      this.ready.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}

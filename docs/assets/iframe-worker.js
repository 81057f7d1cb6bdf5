/* Search needs a Worker, which browsers refuse to pages that were opened from a file. There, and only there,
   this stands in for it: the worker's script runs in a hidden frame that has postMessage both ways. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      const start = () => {
        document.body.appendChild(this.frame);
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => this.receive(data);
        inside.importScripts = (...urls) =>
          Promise.all(urls.map((one) => Worker.load(inside, new URL(one, url).href)));
        Worker.load(inside, url).then(() => {
          this.ready = true;
          this.waiting.splice(0).forEach((data) => this.send(data));
        });
      };
      if (document.body) start();
      else document.addEventListener("DOMContentLoaded", start);
    }
    static load(inside, url) {
      return new Promise((done, failed) => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        script.onerror = failed;
        inside.document.body.appendChild(script);
      });
    }
    postMessage(data) {
      if (this.ready) this.send(data);
      else this.waiting.push(data);
    }
    send(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    receive(data) {
      const event = new MessageEvent("message", { data });
      if (this.onmessage) this.onmessage(event);
      this.dispatchEvent(event);
    }
    terminate() {
      this.frame.remove();
    }
  };
}

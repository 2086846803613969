"use strict";
(function () {
  /* Opens whatever folds the target away, so that the browser's own jump finds it. */
  function reveal(hash, focus) {
    var target = hash.charAt(0) === "#" ? document.getElementById(hash.slice(1)) : null;
    if (target === null) { return; }
    for (var e = target; e !== null; e = e.parentElement) {
      if (e.tagName === "DETAILS") { e.open = true; }
    }
    var summary = target.querySelector("summary");
    if (focus ? summary !== null : false) {
      summary.focus({ preventScroll: true });
      target.scrollIntoView();
    }
  }
  document.addEventListener("click", function (event) {
    var link = event.target.closest("a[href^='#']");
    if (link !== null) {
      var hash = link.getAttribute("href");
      reveal(hash, false);
      /* After the browser has followed the link. */
      setTimeout(function () { reveal(hash, true); }, 0);
    }
    var button = event.target.closest("button[data-all]");
    if (button !== null) {
      var open = button.getAttribute("data-all") === "open";
      document.querySelectorAll("details.machine").forEach(function (d) { d.open = open; });
    }
  });
  window.addEventListener("hashchange", function () { reveal(location.hash, true); });
  if (location.hash !== "") { reveal(location.hash, true); }
  /* Paper has nothing to click on. */
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.from(document.querySelectorAll("details:not([open])"));
    folded.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (d) { d.open = false; });
  });
})();

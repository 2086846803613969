/* What is shown, and what the page's buttons and keys do. */

var view = { focus: null, up: false, root: null };
/* For each function whether the search finds it; none without a search. */
var search = { found: null };

function isFound(fn) { return search.found !== null && fn >= 0 ? search.found[fn] === 1 : false; }

/* Shows all calls or those through a function, inwards or to the callers. */
function show(fn, up) {
  view.focus = fn;
  view.up = up;
  view.root = rooted(fn, up);
  openHeaviest(view.root);
  tree.active = null;
  flame.active = null;
  flame.zoomed = view.root;
  if (fn !== null) { flame.active = kidsOf(view.root)[0] || view.root; }
  document.getElementById("invert").setAttribute("aria-pressed", String(up));
  document.getElementById("whole").disabled = fn === null;
  document.getElementById("own").textContent = up ? "begins" : "self";
  drawFlame();
  drawTree(false);
  drawFunctions();
}

function startSearch() {
  var box = document.getElementById("search");
  box.addEventListener("input", function () {
    var text = box.value.trim().toLowerCase();
    var said = "";
    search.found = null;
    if (text !== "") {
      var count = 0;
      search.found = new Uint8Array(data.functions.name.length);
      for (var fn = 0; fn < search.found.length; fn += 1) {
        if (functionName(fn).toLowerCase().includes(text)) { search.found[fn] = 1; count += 1; }
      }
      said = counted(count, "function", "functions") + ", in stacks of " + percent(weightWith(search.found));
    }
    document.getElementById("found").textContent = said;
    document.getElementById("flame").classList.toggle("searching", search.found !== null);
    drawFlame();
    drawTree(false);
    drawFunctions();
  });
  box.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { box.value = ""; box.dispatchEvent(new Event("input")); }
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "/" ? event.target.tagName !== "INPUT" : false) { event.preventDefault(); box.focus(); }
  });
}

function press(id, action) { document.getElementById(id).addEventListener("click", action); }

press("invert", function () { show(view.focus, !view.up); });
press("whole", function () { show(null, view.up); });
press("focus", function () { if (flame.active.fn >= 0) { show(flame.active.fn, view.up); } });
press("to-lines", function () { openLines(flame.active.fn); });
press("out", function () { zoom(flame.zoomed.parent || view.root); });
startViews();
startFlame();
startTree();
startFunctions();
startSearch();
startVerdicts();
startLines();
useView(0);
startThreads();

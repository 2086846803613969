/* Which samples count: of which view, and of which part of the time. */

/* The view that is shown, the blocks of its time that count (none: all), and what each function
   weighs in them. */
var seen = null;
var range = null;
var sums = { own: null, ownSamples: null, total: null, listed: [] };

/* A colour for each state that a thread can be in; those that nobody knew of take turns. */
var STATES = ["cpu", "wait", "preempted", "run queue", "i/o", "page fault"];
var stateNumbers = new Map();

function stateClass(name) {
  var known = name.toLowerCase().replace(/[-_]/g, " ");
  if (known === "running" || known === "sampled" || known === "events") { known = "cpu"; }
  if (known === "runqueue" || known === "runnable") { known = "run queue"; }
  if (known === "io") { known = "i/o"; }
  if (known === "fault" || known === "page faults" || known === "faults") { known = "page fault"; }
  if (!stateNumbers.has(known)) {
    var at = STATES.indexOf(known);
    stateNumbers.set(known, at >= 0 ? at : 6 + stateNumbers.size % 2);
  }
  return "k" + stateNumbers.get(known);
}

/* What a view weighs in words. */
function viewAmount(one) {
  return one.clock ? duration(one.weight) : grouped(one.weight);
}

function viewTitle(one) {
  if (data.difference !== null) { return one.name + ": " + counted(one.samples, "sample", "samples"); }
  return one.name + " " + viewAmount(one);
}

/* The line about the view, where there are several or not all of the time counts. */
function sayView() {
  var said = data.views.length > 1 ? seen.name + ", " + amount(calls.total[0]) + " in " +
    counted(calls.samples[0], seen.waits ? "wait" : "sample", seen.waits ? "waits" : "samples") : "";
  var part = sayRange();
  if (part !== "") { said += (said === "" ? "" : ", ") + part; }
  return said === "" ? "" : said + ". ";
}

function useView(at) {
  seen = data.views[at];
  if (!seen.read) { seen.read = readCalls(seen.calls); }
  calls = seen.read;
  document.querySelectorAll("#views button").forEach(function (button, number) {
    button.setAttribute("aria-pressed", String(number === at));
  });
  weigh();
}

/* The blocks of a view that lie in the range: of views with wider blocks those that touch it. */
function weigh() {
  var times = seen.times;
  if (range !== null && times !== null) {
    weighBlocks(calls, times, Math.floor(range.from / times.each), Math.ceil(range.to / times.each));
  } else {
    weighAll(calls, seen.calls);
  }
  addUpTotals(calls);
  addUpFunctions();
  legend();
  show(view.focus, view.up);
}

function addUpFunctions() {
  var count = data.functions.name.length;
  sums = { own: new Float64Array(count), ownSamples: new Float64Array(count), total: new Float64Array(count), listed: [] };
  if (range === null || seen.times === null) {
    var table = seen.table;
    table.f.forEach(function (fn, at) {
      sums.own[fn] = table.o[at];
      sums.ownSamples[fn] = table.os[at];
      sums.total[fn] = table.t[at];
    });
    sums.listed = table.f.slice();
    return;
  }
  /* A function counts once per stack: where no caller is the same. The calls stand in the order of a
     walk, but for those that were merged, which are of no function. */
  var path = [];
  var inside = new Int32Array(count);
  for (var id = 1; id <= seen.calls.f.length; id += 1) {
    var fn = calls.fn[id];
    var depth = seen.calls.d[id - 1];
    while (path.length > depth) { inside[path.pop()] -= 1; }
    path.push(fn);
    inside[fn] += 1;
    sums.own[fn] += calls.own[id];
    sums.ownSamples[fn] += calls.ownSamples[id];
    if (inside[fn] === 1) { sums.total[fn] += calls.total[id]; }
  }
  for (fn = 0; fn < count; fn += 1) { if (sums.total[fn] > 0) { sums.listed.push(fn); } }
}

function startViews() {
  var box = document.getElementById("views");
  box.hidden = data.views.length < 2;
  data.views.forEach(function (one, at) {
    var button = element("button", "view");
    button.type = "button";
    if (data.difference === null) { button.append(element("span", "key " + stateClass(one.kind === "all" ? "all" : one.kind))); }
    button.append(element("span", "", viewTitle(one)));
    button.addEventListener("click", function () { useView(at); });
    box.appendChild(button);
  });
  document.addEventListener("keydown", function (event) {
    var typing = event.target.tagName === "INPUT" || event.target.tagName === "SELECT";
    if (event.key !== "e" || typing || event.ctrlKey || event.altKey || event.metaKey) { return; }
    useView((data.views.indexOf(seen) + 1) % data.views.length);
  });
}

"use strict";
// Builds the page from the JSON in #data. All text goes in as text nodes: nothing of a peer is ever markup, a link or code.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const report = data.report;
  const WORDS = {
    "fail": "FAIL", "broken": "BROKE", "warn": "WARN", "pass": "pass", "not-exercised": "not exercised", "not-applicable": "not applicable",
  };
  const STYLES = { conformant: "pass", nonconformant: "fail", incomplete: "warn", completed: "pass" };

  // el("p.dim", {title: "x"}, "text", child): an element with classes, properties, and children; strings become text nodes.
  function el(name, properties, ...children) {
    const [tag, ...classes] = name.split(".");
    const element = document.createElement(tag);
    if (classes.length) element.className = classes.join(" ");
    for (const [key, value] of Object.entries(properties || {})) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (key.includes("-") || key === "role" || key === "for") element.setAttribute(key, value);
      else element[key] = value;
    }
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }

  function plural(number, word) {
    return `${number} ${word}${number === 1 ? "" : "s"}`;
  }

  function whenOpened(details, build) {
    details.addEventListener("toggle", () => {
      if (details.open && !details.dataset.built) {
        details.dataset.built = "yes";
        details.append(build());
      }
    });
    return details;
  }

  // -- JSON, formatted as text: numbers stay as they were written, and what is cut off stays cut off

  function formatted(text) {
    let out = "", depth = 0, inString = false;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (inString) {
        out += c;
        if (c === "\\") out += text[++i] || "";
        else if (c === '"') inString = false;
      } else if (c === '"') { inString = true; out += c; }
      else if (c === "{" || c === "[") {
        const closes = text[i + 1] === (c === "{" ? "}" : "]");
        if (closes) { out += c + text[++i]; } else { out += c + "\n" + "  ".repeat(Math.min(++depth, 40)); }
      } else if (c === "}" || c === "]") { out += "\n" + "  ".repeat(Math.min(Math.max(0, --depth), 40)) + c; }
      else if (c === ",") out += ",\n" + "  ".repeat(Math.min(depth, 40));
      else if (c === ":") out += ": ";
      else out += c;
    }
    return out;
  }

  // -- the sequence diagram of a transcript: lanes, folded stretches, only the visible rows in the page

  const ROW = 28, TALL = 50, NEAR = 3, FOLDED = 8;
  let diagrams = 0;

  function diagram(name, parts) {
    const transcript = data.transcripts[name];
    if (!transcript) return el("p.dim", {}, data.missing[name] || "The transcript is not part of this file.");
    const number = ++diagrams;
    const events = transcript.events;
    const lanes = transcript.lanes;
    const place = (lane) => 100 * (Math.max(0, lanes.indexOf(lane)) + 0.5) / lanes.length;
    const unfolded = new Set();
    let rows = [], tops = [], selected = -1;

    const canvas = el("div.canvas");
    const scroller = el("div.scroller", {
      role: "listbox", tabIndex: 0, "aria-label": `Traffic, ${events.length} events; arrow keys move, the message is shown below`,
      onscroll: draw, onkeydown: key,
    }, canvas);
    const shown = el("div.message", { hidden: true, "aria-live": "polite" });
    const head = el("div.lanes-head", { "aria-hidden": "true" }, el("span.when"), el("span.names", {}, ...lanes.map((lane) => {
      const span = el("span", { title: lane }, lane);
      span.style.left = place(lane) + "%";
      return span;
    })));
    const proofs = Object.keys(parts).map(Number).sort((a, b) => a - b);
    const tools = el("div.tools", {},
      proofs.length ? el("button", { type: "button", onclick: () => jump(-1) }, "\u2190 proof") : null,
      proofs.length ? el("button", { type: "button", onclick: () => jump(1) }, "proof \u2192") : null,
      el("button", { type: "button", onclick: unfoldAll }, "unfold all"),
      el("span.dim", {}, `${events.length} events` + (proofs.length ? `, ${proofs.length} prove it (\u2605)` : "")));

    function layOut() {
      const near = new Set(proofs.flatMap((seq) => Array.from({ length: 2 * NEAR + 1 }, (_, i) => seq - NEAR + i)));
      rows = [];
      for (let seq = 0; seq < events.length;) {
        let end = seq;
        while (proofs.length && end < events.length && !near.has(end)) end++;
        if (end - seq > FOLDED && !unfolded.has(seq)) rows.push({ fold: seq, count: end - seq });
        else if (end > seq) for (let i = seq; i < end; i++) rows.push({ seq: i });
        else { rows.push({ seq }); end = seq + 1; }
        seq = end;
      }
      let top = 0;
      tops = rows.map((row) => {
        const at = top;
        top += parts[row.seq] ? TALL : ROW;
        return at;
      });
      tops.push(top);
      canvas.style.height = top + "px";
    }

    function rowAt(y) {
      let low = 0, high = rows.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (tops[middle + 1] <= y) low = middle + 1; else high = middle;
      }
      return low;
    }

    function draw() {
      const from = rowAt(scroller.scrollTop - 200), until = rowAt(scroller.scrollTop + (scroller.clientHeight || 500) + 200);
      const visible = rows.slice(from, until + 1).map((row, i) => drawRow(row, from + i));
      canvas.replaceChildren(...laneLines(), ...visible);
    }

    function laneLines() {
      const left = head.firstChild.offsetWidth || 76;
      return lanes.map((lane) => {
        const line = el("div.lane");
        line.style.left = `calc(${left}px + (100% - ${left}px) * ${place(lane) / 100})`;
        return line;
      });
    }

    function drawRow(row, index) {
      if (row.fold !== undefined) {
        const fold = el("div.row.fold", { role: "option", id: `d${number}-${index}`, onclick: () => unfold(row) },
          `\u22ef ${row.count} events \u22ef`);
        fold.style.top = tops[index] + "px";
        fold.style.height = ROW + "px";
        fold.setAttribute("aria-selected", String(index === selected));
        return fold;
      }
      const [time, from, to, dir, what] = events[row.seq];
      const part = parts[row.seq];
      const a = place(from), b = place(to), left = Math.min(a, b), width = Math.abs(a - b);
      const arrow = el("span.arrow." + (from === to ? "note" : a < b ? "right" : "left"));
      arrow.style.left = (from === to ? Math.max(0, a - 8) : left) + "%";
      arrow.style.width = (from === to ? 16 : width) + "%";
      const label = el("span.label", { title: what }, what);
      label.style.left = Math.min(left, 55) + "%";
      const area = el("span.area", {}, label, arrow);
      if (part) {
        const said = el("span.part", { title: part }, part);
        said.style.left = Math.min(left, 30) + "%";
        area.append(said);
      }
      const element = el("div.row." + dir + (row.seq in parts ? ".proof" : ""), {
        role: "option", id: `d${number}-${index}`, onclick: () => select(index),
        "aria-label": `${time} s, ${from === to ? from : from + " to " + to}: ${what}${part ? "; " + part : ""}`,
        "aria-setsize": rows.length, "aria-posinset": index + 1, "aria-selected": String(index === selected),
      }, el("span.when", { "aria-hidden": "true" }, time.toFixed(3)), area);
      element.style.top = tops[index] + "px";
      element.style.height = tops[index + 1] - tops[index] + "px";
      return element;
    }

    function select(index) {
      selected = Math.max(0, Math.min(rows.length - 1, index));
      if (tops[selected] < scroller.scrollTop) scroller.scrollTop = tops[selected];
      if (tops[selected + 1] > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = tops[selected + 1] - scroller.clientHeight;
      scroller.setAttribute("aria-activedescendant", `d${number}-${selected}`);
      draw();
      const row = rows[selected];
      shown.hidden = row.fold !== undefined;
      if (row.fold !== undefined) return;
      const [time, from, to, , what, text] = events[row.seq];
      shown.replaceChildren(
        el("p", {}, el("strong", {}, what)),
        parts[row.seq] ? el("p.warn", {}, parts[row.seq]) : null,
        el("p.dim", {}, `event ${row.seq}, ${time.toFixed(6)} s, ${from === to ? from : from + " \u2192 " + to}`),
        el("pre", { tabIndex: 0 }, /^\s*[[{]/.test(text) ? formatted(text) : text));
    }

    function unfold(row) {
      const keep = scroller.scrollTop;
      unfolded.add(row.fold);
      layOut();
      scroller.scrollTop = keep;
      draw();
    }

    function unfoldAll() {
      rows.filter((row) => row.fold !== undefined).forEach((row) => unfolded.add(row.fold));
      layOut();
      draw();
    }

    function jump(way) {
      const at = selected >= 0 && rows[selected].seq !== undefined ? rows[selected].seq : way > 0 ? -1 : events.length;
      const next = way > 0 ? proofs.find((seq) => seq > at) : proofs.findLast((seq) => seq < at);
      const seq = next === undefined ? (way > 0 ? proofs[0] : proofs[proofs.length - 1]) : next;
      select(rows.findIndex((row) => row.seq === seq));
    }

    function key(event) {
      const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -rows.length, End: rows.length }[event.key];
      if (move !== undefined) { event.preventDefault(); select((selected < 0 ? 0 : selected) + move); }
      else if (event.key === "Enter" && selected >= 0 && rows[selected].fold !== undefined) { unfold(rows[selected]); }
    }

    layOut();
    const whole = el("div.diagram", {}, tools, head, scroller, shown,
      transcript.flaws.length ? el("p.dim", {}, transcript.flaws.join("; ")) : null);
    requestAnimationFrame(() => {
      draw();
      if (proofs.length) scroller.scrollTop = Math.max(0, tops[rows.findIndex((row) => row.seq === proofs[0])] - 2 * ROW);
    });
    new ResizeObserver(draw).observe(scroller);
    return whole;
  }

  // -- a rule, its findings, a scenario

  function copyable(command) {
    const pre = el("pre", {}, command);
    const button = el("button", { type: "button", onclick: copy }, "copy");
    function copy() {
      const done = () => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy"; }, 1500); };
      const byHand = () => {
        getSelection().selectAllChildren(pre);
        if (document.execCommand("copy")) done();
      };
      if (navigator.clipboard) navigator.clipboard.writeText(command).then(done, byHand); else byHand();
    }
    return el("div.rerun", {}, pre, button);
  }

  function folded(title, build) {
    return whenOpened(el("details.inner", {}, el("summary", {}, title)), build);
  }

  function finding(rule, found) {
    const scenario = report.scenarios.find((each) => each.id === found.scenario);
    const byTranscript = new Map();
    for (const event of found.events) {
      if (!byTranscript.has(event.transcript)) byTranscript.set(event.transcript, {});
      byTranscript.get(event.transcript)[event.seq] = event.part;
    }
    return el("div.finding", {},
      el("h3", {}, `${found.scenario}`, el("span.dim", {}, `  ${found.kind}`)),
      el("p", {}, found.message),
      found.known !== undefined ? el("p.dim", {}, `known: ${found.known}`) : null,
      el("ol.argument", {}, ...found.events.map((event) => el("li", {},
        el("code", {}, `${event.t.toFixed(3)}  ${who(event)}  ${event.what}`), event.part ? el("span.part", {}, event.part) : null))),
      ...[...byTranscript].map(([name, parts]) => diagram(name, parts)),
      found.rerun ? copyable(found.rerun) : null,
      data.sources[found.scenario] ? folded("the scenario", () => el("pre", { tabIndex: 0 }, data.sources[found.scenario])) : null,
      scenario && scenario.stderr ? folded("what the agent wrote to stderr (tail)", () => el("pre", { tabIndex: 0 }, scenario.stderr)) : null);
  }

  function who(event) {
    if (event.dir === "client") return `${event.conn || "client"} \u2192`;
    if (event.dir === "agent") return "agent \u2190";
    return event.conn === "model" ? "model" : "suite";
  }

  function rule(result) {
    const about = data.rules[result.id] || {};
    const details = el("details.rule", { open: false },
      el("summary", {}, el("span.mark." + result.status, {}, WORDS[result.status]), el("span.id.mono", {}, result.id),
        el("span.dim", {}, `${result.level} \u00b7 ${result.party}`),
        result.findings.length ? el("span.dim", {}, plural(result.findings.length + result.omitted, "finding")) : null));
    details.id = "rule-" + result.id;
    whenOpened(details, () => el("div.body", {},
      el("div.says", {}, el("p", {}, result.text), el("p.dim", {}, result.source)),
      result.reason ? el(result.status === "broken" ? "pre" : "p", {}, result.reason) : null,
      about.exercised ? el("p.dim", {}, `exercised by: ${about.exercised}`) : null,
      about.violated ? el("p.dim", {}, `violated: ${about.violated}`) : null,
      about.never ? el("p.dim", {}, `never held against an agent: ${about.never}`) : null,
      ...result.findings.slice(0, 20).map((found) => finding(result, found)),
      result.findings.length + result.omitted > 20
        ? el("p.dim", {}, `and ${result.findings.length + result.omitted - 20} more: see report.json`) : null,
      result.scenarios.length ? folded(`exercised in ${plural(result.scenarios.length, "scenario")}`,
        () => el("p.dim", {}, result.scenarios.join(", "))) : null));
    return details;
  }

  function scenario(result) {
    const details = el("details.scenario", {},
      el("summary", {}, el("span.mark." + (STYLES[result.status] || "not-exercised"), {}, result.status),
        el("span.id.mono", {}, result.id), el("span.dim", {}, `${result.seconds.toFixed(1)} s`), el("span", {}, result.title)));
    return whenOpened(details, () => el("div.body", {},
      result.reason ? el("p.problem", {}, result.reason) : null,
      result.transcript ? diagram(result.transcript, {}) : null,
      data.sources[result.id] ? folded("the scenario", () => el("pre", { tabIndex: 0 }, data.sources[result.id])) : null,
      result.stderr ? folded("stderr (tail)", () => el("pre", { tabIndex: 0 }, result.stderr)) : null));
  }

  // -- the page

  function words(level) {
    const counts = report.counts[level];
    return `${counts.exercised} of ${counts.total} ${level} rules exercised, ${counts.failed} failed`
      + (counts.warned ? `, ${counts.warned} with warnings` : "") + (counts["not-applicable"] ? ` (${counts["not-applicable"]} not applicable)` : "");
  }

  function bar() {
    const own = report.rules.filter((each) => each.party === report.party && each.level === "must");
    return el("div.bar", { role: "img", "aria-label": words("must") }, ...Object.keys(WORDS).map((status) => {
      const part = el("span." + status, { title: `${WORDS[status]}: ${own.filter((each) => each.status === status).length}` });
      part.style.flexGrow = own.filter((each) => each.status === status).length;
      return part;
    }));
  }

  function header() {
    const target = report.target, info = target.info || {};
    const facts = [
      ["target", [info.name, info.version].filter((part) => typeof part === "string").join(" ")],
      ["command", target.kind === "reference" ? "the bundled reference agent" : target.command],
      ["protocol", `ACP version ${report.protocol}, rules for the ${report.party}`],
      ["run", `${plural(report.scenarios.length, report.target.kind === "transcripts" ? "transcript" : "scenario")} in ${report.seconds.toFixed(1)} s, seed ${report.seed}, ${report.started}`],
      ["suite", `acp-conformance ${report.suite.version}`],
    ];
    if (report.baseline) facts.push(["baseline", `${report.baseline.file}: ${report.baseline.known} known, ${report.baseline.new} new`
      + (report.baseline.unexpected_passes.length ? `; no longer failing: ${report.baseline.unexpected_passes.join(", ")}` : "")]);
    return el("header", {},
      el("div.top", {}, el("h1", {}, "ACP conformance"), el("span.verdict." + STYLES[report.verdict], {}, report.verdict),
        el("button", { type: "button", onclick: theme }, "light / dark")),
      bar(), el("p", {}, el("strong", {}, words("must")), `; ${words("should")}`),
      ...report.problems.map((problem) => el("p.problem", {}, problem)), toMend(),
      el("dl.facts", {}, ...facts.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
  }

  function toMend() {
    const rank = (each) => [each.party !== report.party, each.status !== "fail", each.level !== "must"].map(Number).join("");
    const rules = report.rules.filter((each) => each.status === "fail" || each.status === "broken" || each.status === "warn")
      .sort((a, b) => rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0);
    if (!rules.length) return null;
    return el("ul.mend", { "aria-label": "what to look at" }, ...rules.map((each) => el("li", {},
      el("button", { type: "button", onclick: () => show(each.id) },
        el("span.mark." + each.status, {}, WORDS[each.status]), " ", el("span.mono", {}, each.id)),
      el("span", {}, ` ${each.level}: ${each.findings.length ? each.findings[0].message : each.reason.split("\n")[0]}`))));
  }

  function show(id) {
    const details = document.getElementById("rule-" + id);
    if (details.hidden) document.querySelectorAll(".filter .chip").forEach((chip) => {
      if (chip.getAttribute("aria-pressed") !== "true") chip.click();
    });
    details.open = true;
    details.scrollIntoView({ block: "start" });
    details.firstChild.focus();
  }

  function theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }

  function build() {
    const areas = new Map();
    for (const result of report.rules) {
      const area = result.id.split(".")[0];
      if (!areas.has(area)) areas.set(area, []);
      areas.get(area).push({ result, element: rule(result) });
    }
    const sections = [...areas].map(([area, rules]) => {
      const exercised = rules.filter(({ result }) => ["fail", "warn", "pass"].includes(result.status)).length;
      return { rules, element: el("section", {}, el("h2", {}, area, el("span.dim", {}, `  ${exercised} of ${rules.length} exercised`)),
        ...rules.map(({ element }) => element)) };
    });
    const nothing = el("p.dim", { hidden: true, role: "status" }, "no rule matches");
    const search = el("input", { type: "search", placeholder: "search rules, findings, scenarios", "aria-label": "search", oninput: filter });
    const level = el("select", { "aria-label": "level", onchange: filter },
      ...["must and should", "must", "should"].map((name) => el("option", { value: name }, name)));
    const chips = Object.keys(WORDS).filter((status) => report.rules.some((each) => each.status === status)).map((status) =>
      el("button.chip." + status, { type: "button", "aria-pressed": "true", value: status, onclick: toggle },
        `${WORDS[status]} ${report.rules.filter((each) => each.status === status).length}`));
    const haystacks = new Map(report.rules.map((each) => [each.id, [each.id, each.text, each.source, each.reason,
      ...each.scenarios, ...each.findings.flatMap((found) => [found.scenario, found.message])].join("\n").toLowerCase()]));

    function toggle(event) {
      const chip = event.currentTarget;
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
      filter();
    }

    function filter() {
      const wanted = new Set(chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.value));
      const text = search.value.trim().toLowerCase();
      let any = false;
      for (const section of sections) {
        let some = false;
        for (const { result, element } of section.rules) {
          const shown = wanted.has(result.status) && (level.value.includes("and") || level.value === result.level)
            && haystacks.get(result.id).includes(text);
          element.hidden = !shown;
          some = some || shown;
        }
        section.element.hidden = !some;
        any = any || some;
      }
      nothing.hidden = any;
    }

    document.getElementById("report").append(header(),
      el("nav.filter", { "aria-label": "filter" }, search, level, ...chips), nothing, ...sections.map(({ element }) => element),
      el("section", {}, el("h2", {}, "scenarios"), ...report.scenarios.map(scenario)));
    const first = sections.flatMap(({ rules }) => rules).find(({ result }) => result.status === "fail");
    if (first) first.element.open = true;
  }

  build();
})();

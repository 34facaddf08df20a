// ---- The live page of `paddlectl dashboard` ----
// This file follows report.js, whose drawings it uses. It shows an overview of the cluster, a page
// for each job and the logs of its processes, at #, #job=NAME and #job=NAME&log=PROCESS. The server
// sends events: cluster, job and gone (cli/dashboard/live.h).

const settings = job;  // {live, cluster, allow_changes}
let cluster = null;  // of the newest event
let record = null;  // of the shown job: the keys of all its events
let place = {job: '', log: ''};

// ---- Patches ----

const HANDLERS = ['onclick', 'onchange', 'oninput', 'onmousemove', 'onmouseleave'];
const keyOf = node => node.getAttribute?.('data-key') ?? null;
const isAlike = (a, b) => a.nodeName === b.nodeName && a.id === b.id && keyOf(a) === keyOf(b);

// Makes `old` equal to `fresh`. Nodes that need no change stay the same nodes, and with them the
// focus, the selected text and the scroll position.
function patch(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (fresh.hasAttribute('data-kept')) return;
  if (old.isEqualNode(fresh)) return;
  for (const {name, value} of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.attributes.length > fresh.attributes.length) {
    for (const {name} of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const handler of HANDLERS) if (old[handler] !== fresh[handler]) old[handler] = fresh[handler];
  if (!fresh.draw) return patchChildren(old, [...fresh.childNodes]);
  old.draw = fresh.draw;
  old.isOld = true;
  if (near.has(old)) drawAgain(old);
}

function drawAgain(holder) {
  if (!holder.isOld || !(holder.drawnWidth > 0)) return;
  holder.isOld = false;
  patchChildren(holder, [holder.draw(holder.drawnWidth)]);
}

// The pictures and the rows of long tables that are in the window or near it.
// The others are drawn again when they come near.
const near = new WeakSet();
const nearness = new IntersectionObserver(entries => {
  let isRow = false;
  for (const {target, isIntersecting} of entries) {
    if (!isIntersecting) near.delete(target);
    else near.add(target);
    if (isIntersecting && target.draw) drawAgain(target);
    isRow ||= isIntersecting && !target.draw;
  }
  if (isRow) redrawKeys(['rows']);
}, {rootMargin: '30% 0px'});

function patchChildren(parent, fresh) {
  const keyed = new Map();
  for (const child of parent.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let next = parent.firstChild;
  for (const node of fresh.map(one => typeof one === 'string' ? new Text(one) : one)) {
    const key = keyOf(node);
    const match = key ? keyed.get(key) : next && isAlike(next, node) ? next : undefined;
    if (key) keyed.delete(key);
    if (match === undefined) {
      parent.insertBefore(node, next);
    } else {
      if (match === next) next = next.nextSibling;
      else parent.insertBefore(match, next);
      patch(match, node);
    }
  }
  while (next) {
    const last = next;
    next = next.nextSibling;
    last.remove();
  }
}

// ---- Places ----

const linkTo = (name, log = '') =>
  '#' + (name === '' ? '' : `job=${encodeURIComponent(name)}${log === '' ? '' : `&log=${encodeURIComponent(log)}`}`);

function placeOf(hash) {
  const values = new URLSearchParams(hash.slice(1).replaceAll('+', '%2B'));
  return {job: values.get('job') ?? '', log: values.get('log') ?? ''};
}

const button = (text, onclick, attributes = {}) =>
  Object.assign(html('button', {type: 'button', ...attributes}, text), {onclick});

// ---- What is shown of many ----

const ROWS_MAX = 60;  // of a table that is not folded
const ROWS_FEW = 25;  // of a folded one
const NEWEST = 12;  // events and passes of a folded table
const unfolded = new Set();  // titles of the tables that show all

// The first rows, or those that `few` chooses, and a button for the others.
function folded(title, rows, noun, draw, max = ROWS_MAX, few = all => all.slice(0, Math.min(max, ROWS_FEW))) {
  const isLong = rows.length > max, all = !isLong || unfolded.has(title);
  const toggle = () => {
    if (!unfolded.delete(title)) unfolded.add(title);
    redrawAll();
  };
  const text = all ? 'Show fewer' : `Show all ${rows.length} ${noun}`;
  const more = isLong ? [html('p', {}, button(text, toggle, {'aria-expanded': String(all)}))] : [];
  return [...draw(all ? rows : few(rows)), ...more];
}

const filters = {jobs: '', processes: '', log: ''};
const passesFilter = (filter, ...texts) => filter === '' || texts.some(text => text.toLowerCase().includes(filter));

function filterBox(name, label, changed) {
  const box = html('input', {type: 'search', id: `filter-${name}`, 'aria-label': label, placeholder: `${label}  /`,
                             autocomplete: 'off', spellcheck: 'false'});
  box.oninput = event => {
    filters[name] = event.target.value.trim().toLowerCase();
    changed();
  };
  box.value = filters[name];
  return box;
}

// ---- Pieces ----

const bar = (value, label) => html('progress', {max: '1', value: value.toFixed(4), 'aria-label': label});
const rateText = value => value > 0 ? short(value < 10 ? value : Math.round(value)) : '-';
const bytesText = value => value > 0 ? bytes(value) : '-';
const flowText = ({in_per_s: into, out_per_s: out}) => into > 0 || out > 0 ? `${bytes(into ?? 0)} / ${bytes(out ?? 0)}` : '-';
const shareOf = ({pass, passes, pass_done: done}) => passes > 0 ? Math.min(1, (pass + (done ?? 0)) / passes) : 0;
const percent = value => `${Math.floor(value * 100)} %`;
const now = () => cluster?.unix_ms ?? 0;
const tags = list => list.length === 0 ? '' : html('span', {class: 'tags'}, ...list.map(tag => html('span', {}, tag)));
const tiles = list => html('div', {class: 'tiles'}, ...list.map(([value, name, kind = '']) =>
  html('div', {class: `tile ${kind}`}, html('b', {}, value), html('span', {}, name))));

function jobKind({is_running: runs, has_failed: failed, loss, stalled}) {
  return failed ? 'failed' : runs && loss ? 'fault' : stalled.length > 0 ? 'slow' : runs ? 'works' : 'ended';
}

// "running, trainer-1 stalled", "running, n-2 does not answer"
function jobText({state, is_running: runs, stalled, loss}) {
  if (runs && loss) return `${state}, ${loss.split('\n')[0]}`;
  const others = stalled.length > 1 ? ` and ${stalled.length - 1} more` : '';
  return runs && stalled.length > 0 ? `${state}, ${stalled[0]}${others} stalled` : state;
}

// "1.5 of 8", or "8" where the use is not known.
const isKnown = value => value !== null && value !== undefined;
const useOf = (used, total, text) => isKnown(used) ? `${text(used)} of ${total}` : total;
const oneDigit = value => value.toFixed(1);
const usedMemory = ({memory_bytes: all, memory_available_bytes: free}) => isKnown(free) ? all - free : null;

// ---- Overview ----

// ["1.5", "of 8 cores in use"]
const useTile = (used, text, total) => [isKnown(used) ? text(used) : '-', `of ${total} in use`];

function clusterTiles() {
  const {nodes, jobs} = cluster;
  const ready = nodes.filter(node => node.state === 'ready');
  const running = jobs.filter(one => one.is_running);
  const rate = sum(running.map(one => one.rate ?? 0));
  const total = value => ready.every(node => isKnown(value(node))) ? sum(ready.map(value)) : null;
  const list = [
    [String(running.length), running.length === 1 ? 'job runs' : 'jobs run'],
    [`${ready.length} of ${nodes.length}`, 'nodes ready'],
    useTile(total(node => node.cores_busy), oneDigit, `${whole(total(node => node.cores) ?? NaN)} cores`),
    useTile(total(usedMemory), bytes, `${bytesText(total(node => node.memory_bytes))} memory`),
    [rateText(rate), 'examples/s of all jobs'],
  ];
  return [html('h1', {tabindex: '-1'}, cluster.cluster), tiles(list)];
}

function jobRow(one) {
  const share = shareOf(one);
  const done = one.is_running && one.passes > 0 ? html('span', {class: 'progress'}, bar(share, `progress of ${one.job}`),
    html('small', {}, `${percent(share)}, pass ${one.pass + 1} of ${one.passes}`)) :
    one.passes > 0 ? `pass ${Math.min(one.pass + 1, one.passes)} of ${one.passes}` : '-';
  const about = html('span', {class: 'about'}, ...(one.tags.length > 0 ? [tags(one.tags)] : []), one.note);
  const row = [
    html('a', {href: linkTo(one.job)}, one.job), stateText(jobKind(one), jobText(one)), done, figure(one.cost),
    rateText(one.rate), one.left_ms === null ? '-' : span(one.left_ms),
    one.started_ms > 0 ? `${span(now() - one.started_ms)} ago` : '-',
    String(one.trainers), String(one.pservers), one.tags.length > 0 || one.note !== '' ? about : ''];
  return Object.assign(row, {key: one.job});
}

function jobs() {
  const filter = filters.jobs;
  const shown = cluster.jobs.filter(one => passesFilter(filter, one.job, one.state, one.note, one.git, ...one.tags));
  const runs = shown.some(one => one.is_running);
  const columns = [['job', 'long'], ['state', 'long'], ['progress', 'long'], ['cost', 'n'], ['examples/s', 'n', runs],
                   ['left', 'n', runs], ['started', 'n'], ['trainers', 'n'], ['pservers', 'n'], ['tags and note', 'long']];
  const title = html('div', {class: 'title'}, html('h2', {}, 'Jobs'), filterBox('jobs', 'Filter jobs', redrawAll));
  if (cluster.jobs.length === 0) return [title, paragraph('The nodes know no job. Start one: paddlectl train WORKSPACE')];
  if (shown.length === 0) return [title, paragraph('No job has this text in its name, state, tags or note.')];
  return [title, ...folded('Jobs', shown, 'jobs', rows => bare('jobs', columns, rows.map(jobRow)))];
}

// A table without its heading.
const bare = (id, columns, rows) => table('', id, columns, rows).slice(1);

const NODE_KINDS = {ready: 'works', absent: 'slow', unreachable: 'failed'};
const reasonOf = ({node, error}) => (error ?? '').replace(`node ${node}: `, '');
function clusterNodes() {
  const rank = node => ['unreachable', 'absent', 'ready'].indexOf(node.state);
  const sorted = cluster.nodes.length > ROWS_MAX ? cluster.nodes.toSorted((a, b) => rank(a) - rank(b)) : cluster.nodes;
  const columns = [['node', 'long'], ['state', 'whole'], ['cores in use', 'n'], ['memory in use', 'n'], ['GPUs', 'long'],
                   ['in / out per s', 'n'], ['why', 'long']];
  const row = one => Object.assign(
    [one.node, stateText(NODE_KINDS[one.state] ?? 'ended', one.state), useOf(one.cores_busy, whole(one.cores ?? NaN), oneDigit),
     useOf(usedMemory(one), bytesText(one.memory_bytes), bytes), one.gpus ?? '', flowText(one), reasonOf(one)], {key: one.node});
  return [html('h2', {}, 'Nodes'), ...folded('Nodes', sorted, 'nodes', rows => bare('nodes', columns, rows.map(row)))];
}

// ---- A job ----

const entry = () => cluster?.jobs.find(one => one.job === place.job);
const nowOf = process => process.now ?? {};

function kindOf(process) {
  if (process.failed) return 'failed';
  if (process.ended_ms > 0) return 'ended';
  const {is_fault: fault, waits_for: awaited} = nowOf(process);
  return fault ? 'fault' : process.slow ? 'slow' : awaited ? 'waits' : 'works';
}

const KINDS_BY_NEED = ['failed', 'fault', 'slow', 'waits', 'works', 'ended'];
const byNeed = list => list.toSorted((a, b) => KINDS_BY_NEED.indexOf(kindOf(a)) - KINDS_BY_NEED.indexOf(kindOf(b)));

function jobHead() {
  const {live} = record, one = entry();
  const trainers = job.processes.filter(isTrainer);
  const rate = sum(trainers.map(process => nowOf(process).rate ?? 0));
  const progress = one?.passes > 0 ? one : job.progress ?? {pass: 0, passes: 0, pass_done: 0};
  const share = shareOf(progress);
  const kind = one && live.running && (live.loss || live.broken_start) ? 'fault' : one && jobKind(one);
  const state = one ? stateText(kind, jobText(one)) : stateText(live.running ? 'works' : 'ended', live.running ? 'running' : 'ended');
  const list = [...headline()];
  if (progress.passes > 0) list.push([percent(share), `pass ${Math.min(progress.pass + 1, progress.passes)} of ${progress.passes}`]);
  if (live.running) list.push([live.left_ms === null ? '-' : span(live.left_ms), 'left']);
  list.push([figure(one?.cost ?? job.curves[0]?.cost.at(-1)?.[1] ?? null), live.running ? 'cost now' : 'last cost']);
  if (live.running) list.push([rateText(rate), 'examples/s now']);
  const examples = sum(trainers.map(process => process.examples ?? 0));
  if (!live.running && examples > 0) list.push([short(examples), 'examples trained on']);
  list.push([begin > 0 ? span((live.running ? now() : end) - begin) : '-', live.running ? 'since the start' : 'duration']);
  const restarts = sum(job.processes.map(process => Math.max(0, process.starts - 1)));
  if (restarts > 0) list.push([String(restarts), restarts === 1 ? 'restart' : 'restarts']);
  const size = `${counted(one?.trainers ?? trainers.length, 'trainer')}, ` +
               counted(one?.pservers ?? job.processes.length - trainers.length, 'pserver');
  const about = [tags(job.tags), job.note].filter(text => text !== '');
  return [
    html('div', {class: 'title'}, html('h1', {tabindex: '-1'}, job.job), state,
         ...(settings.allow_changes && live.running ? [button('Stop...', askToStop, {class: 'danger'})] : [])),
    html('div', {class: 'sub about'}, html('span', {}, `${utc(begin)} UTC`), html('span', {}, size), ...about),
    ...(progress.passes > 0 ? [bar(share, 'progress of the job')] : []), tiles(list)];
}

const liveCurves = () => {
  const shown = curves();
  const none = record.live.running ? 'The curves begin at the first log point.' : 'The job ended before its first log point.';
  return shown.length > 0 ? shown : [paragraph(none)];
};

// ---- Who waits for whom ----

const CELL = 13, CELL_PITCH = 16;
const CELLS_FROM = 24;  // processes; fewer are all in the picture below

// A square for each process, coloured by its state.
function processMap() {
  const list = job.processes;
  const counts = KINDS_BY_NEED.map(kind => [kind, list.filter(process => kindOf(process) === kind).length]);
  const names = {failed: 'failed', fault: 'in trouble', slow: 'slow', waits: 'waiting', works: 'working', ended: 'ended'};
  const shown = counts.filter(([, count]) => count > 0);
  const keys = shown.map(([kind, count]) => html('span', {class: `state ${STATES[kind]}`}, `${count} ${names[kind]}`));
  const legend = html('div', {class: 'counts'}, ...keys);
  if (list.length <= CELLS_FROM) return [legend];
  const draw = width => {
    const columns = Math.max(1, Math.floor(width / CELL_PITCH));
    const cells = list.map((process, i) => svg('rect', {
      class: `cell ${STATES[kindOf(process)]}`, x: i % columns * CELL_PITCH, y: Math.floor(i / columns) * CELL_PITCH,
      width: CELL, height: CELL, rx: 2}));
    const title = `state of each process: ${shown.map(([kind, count]) => `${count} ${names[kind]}`).join(', ')}`;
    const drawing = frame('map', title, width, Math.ceil(list.length / columns) * CELL_PITCH, cells);
    const at = event => {
      const box = drawing.getBoundingClientRect();
      const column = Math.floor((event.clientX - box.left) / CELL_PITCH);
      return column < columns ? job.processes[Math.floor((event.clientY - box.top) / CELL_PITCH) * columns + column] : undefined;
    };
    drawing.onmousemove = event => {
      const process = at(event);
      showTip(process ? `${nameOf(process)}: ${nowOf(process).state ?? process.state}` : '', event);
    };
    drawing.onmouseleave = event => showTip('', event);
    drawing.onclick = event => { if (at(event)) location.hash = linkTo(place.job, at(event).role); };
    return drawing;
  };
  return [legend, picture(draw)];
}

const WAIT_ROWS = 24, WAIT_TEXT = 190, LANE = 11, LANES_MAX = 4;
const beginOf = (text, room) => text.length > room ? text.slice(0, Math.max(0, room - 2)) + '..' : text;

// Rows of the picture: all processes of a small job, else the trainers and the pservers that somebody waits for.
function waitingRows() {
  const awaited = new Set(job.processes.map(process => nowOf(process).waits_for).filter(Boolean));
  const isSmall = job.processes.length <= WAIT_ROWS;
  const rows = job.processes.filter(process => isSmall || isTrainer(process) || awaited.has(process.role));
  return rows.length <= WAIT_ROWS ? rows :
    byNeed(rows).toSorted((a, b) => awaited.has(b.role) - awaited.has(a.role)).slice(0, WAIT_ROWS);
}

// The processes that rows wait for, and their rows.
const awaitedBy = rows => [...new Set(rows.map(process => nowOf(process).waits_for).filter(Boolean))]
  .map(role => ({role, to: rows.findIndex(process => process.role === role)})).filter(({to}) => to >= 0).slice(0, LANES_MAX);

// Lines between the names and the bars, from the rows that wait to the one that they wait for.
function waitingLanes(rows, from) {
  const middle = row => row * BAR_PITCH + BAR_HEIGHT / 2;
  return awaitedBy(rows).flatMap(({role, to}, lane) => {
    const x = from + LANE * (lane + 1);
    const waiting = rows.flatMap((process, i) => nowOf(process).waits_for === role ? [i] : []);
    const ends = [to, ...waiting].map(middle);
    const tips = waiting.map(row => `M${from} ${middle(row)}H${x}`).join('');
    const y = middle(to);
    return [svg('path', {class: 'lane', d: `${tips}M${x} ${Math.min(...ends)}V${Math.max(...ends)}M${x} ${y}H${from}`}),
            svg('path', {class: 'arrow', d: `M${from - 2} ${y}l7 -4v8z`})];
  });
}

function waitingPicture() {
  const rows = waitingRows();
  if (rows.length === 0) return [];
  const rate = process => nowOf(process).rate ?? 0;
  const all = job.processes.filter(isTrainer);
  const isBusyKnown = all.every(process => process.busy_rate > 0);
  const busy = process => isBusyKnown ? process.busy_rate ?? 0 : 0;  // a trainer that all wait for has the lowest
  const highest = Math.max(1e-9, ...rows.map(rate), ...rows.map(busy));
  const longest = Math.max(...rows.map(process => process.role.length));
  const draw = width => {
    const names = Math.min(width * 0.25, longest * LETTER + 14);
    const lanes = awaitedBy(rows).length;
    const left = names + (lanes > 0 ? LANE * lanes + 8 : 0);
    const room = Math.max(10, width - left - Math.min(WAIT_TEXT, width * 0.42));
    const marks = rows.flatMap((process, i) => {
      const top = i * BAR_PITCH, kind = kindOf(process), length = rate(process) / highest * room;
      const busyLength = busy(process) / highest * room, textAt = left + Math.max(length, busyLength) + 6;
      const state = kind === 'slow' && !nowOf(process).waits_for ? 'slow' : nowOf(process).state ?? process.state;
      const words = `${rate(process) > 0 ? `${rateText(rate(process))}/s  ` : ''}${state}`;
      return [
        svg('text', {class: 'name', x: at(names - 8), y: top + 13.5, 'text-anchor': 'end'},
            endOf(process.role, Math.floor((names - 8) / LETTER))),
        svg('rect', {class: 'bar busy', x: at(left), y: top, width: at(busyLength), height: BAR_HEIGHT, rx: 2}),
        svg('rect', {class: `bar ${STATES[kind]}`, x: at(left), y: top, width: at(Math.max(length, 1)), height: BAR_HEIGHT, rx: 2}),
        svg('text', {class: `value ${STATES[kind]}`, x: at(textAt), y: top + 13.5},
            beginOf(words, Math.floor((width - textAt) / LETTER))),
      ];
    });
    return frame('bars', 'examples/s of the trainers, and who waits for whom', width, rows.length * BAR_PITCH,
                 [...marks, ...waitingLanes(rows, names - 4)]);
  };
  const notes = [...(isBusyKnown ? ['pale: while not waiting, over the whole job'] : []),
                 ...(all.length > rows.length ? [`the ${rows.length} that need a look, of ${all.length}`] : [])];
  return [html('figure', {class: 'waits'}, html('figcaption', {}, 'Examples/s, and who waits for whom ', html('small', {}, notes.join('; '))), picture(draw))];
}

// "6 processes wait for trainer-17", the most awaited first.
function waitingTexts() {
  const counts = new Map();
  for (const process of job.processes) {
    const role = nowOf(process).waits_for;
    if (role) counts.set(role, (counts.get(role) ?? 0) + 1);
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3);
  const texts = sorted.map(([role, count]) => `${count} ${count === 1 ? 'process waits' : 'processes wait'} for ${role}`);
  return texts.length === 0 ? [] : [paragraph(texts.join('; '))];
}

const waiting = () => [
  html('h2', {}, 'Work'), ...processMap(), ...waitingTexts(), ...record.slow.map(text => html('p', {class: 'warn'}, text)),
  ...(record.live.running ? waitingPicture() : nodes().slice(1))];

// ---- Processes, events, nodes ----

function processRow(process) {
  const one = nowOf(process), kind = kindOf(process);
  const state = process.ended_ms > 0 ? process.state : one.state || process.state;
  const known = (value, text) => isKnown(value) ? text(value) : '-';
  const row = [
    html('a', {href: linkTo(place.job, process.role), title: 'its log'}, process.role), process.node,
    stateText(kind, kind === 'slow' ? `slow, ${state}` : state),
    known(one.pass, pass => String(pass + 1)), known(one.batch, whole), known(one.cost, figure), rateText(one.rate),
    flowText(one),
    known(one.cores, cores => cores.toFixed(1)), bytesText(one.memory_bytes ?? process.memory_bytes),
    process.starts > 1 ? String(process.starts) : '-'];
  if (settings.allow_changes) row.push(process.ended_ms === 0 && record.live.running ?
    button('Restart...', () => askToRestart(process.role), {'aria-label': `Restart ${process.role}`}) : '');
  return Object.assign(row, {key: nameOf(process)});
}

function liveProcesses() {
  const filter = filters.processes;
  const matching = job.processes.filter(process => passesFilter(
    filter, process.role, process.node, process.state, nowOf(process).state ?? ''));
  const sorted = matching.length > ROWS_MAX ? byNeed(matching) : matching;
  const runs = record.live.running;  // then the columns stay where they are when all processes wait
  const columns = [
    ['process', ''], ['node', 'long'], ['state', 'long'], ['pass', 'n', runs], ['batch', 'n', runs], ['cost', 'n', runs],
    ['examples/s', 'n', runs], ['in / out per s', 'n', runs], ['cores', 'n', runs], ['memory', 'n', runs], ['starts', 'n'],
    ...(settings.allow_changes ? [['change', '']] : [])];
  const title = html('div', {class: 'title'}, html('h2', {}, 'Processes'), filterBox('processes', 'Filter processes', redrawAll));
  return [title, ...folded('Processes', sorted, 'processes', rows => rows.length > ROWS_MAX ?
    bare('processes', columns.map(([name, kind]) => [name, kind, true]), manyRows(rows, columns.length)) :
    bare('processes', columns, rows.map(processRow)))];
}

// Rows that are far from the window are kept as they are.
function manyRows(processes, columns) {
  const drawn = new Map([...document.querySelectorAll('#processes tr')].map(row => [keyOf(row), row]));
  const isFar = row => row && !near.has(row) && row.childElementCount === columns;
  return processes.map(process => isFar(drawn.get(nameOf(process))) ?
    {key: nameOf(process), isKept: true} : processRow(process));
}

function liveEvents() {
  if (job.events.length === 0) return [];
  const count = new Map();  // of equal ones, whose keys must differ
  const rows = job.events.map(({unix_ms: when, role, text, is_bad: bad}) => {
    const same = `${when} ${role} ${text}`;
    count.set(same, (count.get(same) ?? 0) + 1);
    return Object.assign([utc(when), role, [text, bad ? 'long bad' : 'long']], {key: `${same} ${count.get(same)}`, bad});
  }).reverse();
  const columns = [['UTC', ''], ['from', ''], ['event', 'long']];
  return [html('h2', {}, 'Events', html('small', {}, ' the newest first')),
          ...folded('Events', rows, 'events', shown => bare('events', columns, shown), NEWEST, newestEvents)];
}

// Half of them may be faults, however old: the other events of a day push no fault out.
function newestEvents(rows) {
  const faults = rows.filter(row => row.bad).slice(0, NEWEST / 2);
  const others = rows.filter(row => !faults.includes(row)).slice(0, NEWEST - faults.length);
  return rows.filter(row => faults.includes(row) || others.includes(row));
}

const livePasses = () => passes((title, id, columns, rows) => [
  html('h2', {}, title, html('small', {}, ' the newest first')),
  ...folded(title, rows.toReversed(), 'passes', shown => bare(id, columns, shown), NEWEST)]);

// The nodes of the job, with what its processes use of them.
function jobNodes() {
  const groups = Map.groupBy(job.processes, process => process.node);
  const rows = [...groups].map(([node, list]) => {
    const of = cluster?.nodes.find(one => one.node === node);
    const use = key => sum(list.map(process => nowOf(process)[key] ?? 0));
    const state = of?.state ?? 'not known';
    return Object.assign([
      node, stateText(NODE_KINDS[state] ?? 'ended', state), String(list.length),
      use('cores') > 0 ? `${use('cores').toFixed(1)} of ${whole(of?.cores ?? NaN)}` : '-',
      use('memory_bytes') > 0 ? `${bytes(use('memory_bytes'))} of ${bytesText(of?.memory_bytes)}` : '-', of ? reasonOf(of) : ''],
      {key: node, bad: state === 'unreachable'});
  });
  const columns = [['node', 'long'], ['state', 'whole'], ['processes', 'n'], ['cores', 'n'], ['memory', 'n'], ['why', 'long']];
  return [html('h2', {}, 'Nodes', html('small', {}, ' what this job uses of them')), ...folded('Job nodes', rows.toSorted((a, b) => b.bad - a.bad), 'nodes',
                                             shown => bare('nodes', columns, shown))];
}

const resumeCommand = () => `paddlectl train --resume --name ${job.job} WORKSPACE`;
const resuming = () => [html('h2', {}, 'Resume'), paragraph('After its end the job continues from its newest snapshot with'),
                        html('pre', {id: 'resume'}, resumeCommand())];

// ---- Sections: each is drawn again when one of its keys has changed ----

const ALWAYS = 'cluster';
const OVERVIEW = [
  {id: 'summary', keys: [ALWAYS], make: clusterTiles}, {id: 'all-jobs', keys: [ALWAYS], make: jobs},
  {id: 'all-nodes', keys: [ALWAYS], make: clusterNodes},
];
const JOB = [
  {id: 'head', keys: [ALWAYS, 'live', 'processes', 'curves', 'evaluators', 'progress', 'tags', 'note'], make: jobHead},
  {id: 'curves', keys: ['curves', 'evaluators'], make: liveCurves},
  {id: 'work', keys: ['processes', 'slow', 'live'], make: waiting},
  {id: 'job-processes', keys: ['processes', 'live', 'rows'], make: liveProcesses},
  {id: 'job-events', keys: ['events'], make: liveEvents},
  {id: 'tests', keys: ['test_curves'], make: testCurves},
  {id: 'job-passes', keys: ['passes', 'evaluators'], make: livePasses},
  {id: 'job-nodes', keys: [ALWAYS, 'processes'], make: jobNodes},
  {id: 'pservers', keys: ['ports', 'lags'], make: pservers},
  {id: 'surroundings', keys: ['commands', 'machines', 'tags', 'note', 'git'], make: surroundings},
  {id: 'job-configuration', keys: ['configuration'], make: configuration},
  {id: 'resuming', keys: ['job'], make: resuming},
];
const MESSAGE = [{id: 'message', keys: [ALWAYS, 'gone', 'connection'], make: () => [
  html('h1', {tabindex: '-1'}, place.job === '' ? settings.cluster : place.job),
  ...(goneJob ? [paragraph('No node knows this job.')] :
      isConnected ? [paragraph('The first look at the nodes takes a moment.')] : [])]}];

let sections = [];
let focusesHeading = false;  // of the next view, after the reader went there
let goneJob = false;  // the nodes do not know the shown job, or no longer
let isScheduled = false;
const stale = new Set();  // keys that have changed
const due = new Set();  // sections to draw
const SLICE_MS = 12;  // of drawing, before the browser's other work has its turn

function redrawKeys(keys) {
  for (const key of keys) stale.add(key);
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(drawStale);
}
const redrawAll = () => redrawKeys(['all']);

function drawStale() {
  isScheduled = false;
  const begun = performance.now(), focus = document.activeElement;
  const wanted = place.job === '' ? (cluster ? OVERVIEW : MESSAGE) : (record?.live ? JOB : MESSAGE);
  if (wanted !== sections) {
    sections = wanted;
    due.clear();
    main.replaceChildren(...sections.map(({id}) => html('section', {id: `view-${id}`})));
    stale.add('all');
  }
  if (record?.live && place.job !== '') use(record);
  for (const section of sections) if (stale.has('all') || section.keys.some(key => stale.has(key))) due.add(section);
  stale.clear();
  for (const section of sections) {
    if (!due.delete(section)) continue;
    patchChildren(document.getElementById(`view-${section.id}`), section.make());
    if (performance.now() - begun > SLICE_MS) break;
  }
  if (due.size > 0) redrawKeys([]);
  for (const one of main.querySelectorAll('.picture, #processes tr')) nearness.observe(one);
  patchChildren(bannerBox, banners());
  patchChildren(header, topLine());
  drawLogHead();
  if ([...main.querySelectorAll('.picture')].some(holder => holder.drawnWidth === 0)) redraw();
  if (document.activeElement !== focus && focus?.isConnected) focus.focus({preventScroll: true});
  if (focusesHeading && sections !== MESSAGE) {
    focusesHeading = false;
    main.querySelector('h1').focus({preventScroll: true});
  }
}

function titleText() {
  const one = entry();
  if (place.job === '') return `${settings.cluster}: jobs`;
  return !document.hidden && one?.is_running && one.passes > 0 ? `${percent(shareOf(one))} ${place.job}` : place.job;
}

// ---- The frame around them ----

const header = html('header', {});
const bannerBox = html('div', {id: 'banners', role: 'status'});
let isConnected = true;  // until the first error

function topLine() {
  const path = place.job === '' ? [] : [html('span', {class: 'quiet', 'aria-hidden': 'true'}, '/'),
                                        html('a', {href: linkTo(place.job), 'aria-current': 'page'}, place.job)];
  const text = cluster ? `${isConnected ? 'live' : 'not connected'}, ${utc(now()).slice(11)} UTC` : 'connecting';
  return [html('nav', {'aria-label': 'Place'}, html('a', {href: '#'}, settings.cluster), ...path),
          html('span', {class: `state ${isConnected ? 'ok' : 'bad'}`}, text)];
}

// A banner is [kind, text, link if there is one].
function bannersOfCluster() {
  const list = [];
  if (!isConnected) {
    const age = cluster ? ` What you see is from ${utc(now()).slice(11)} UTC.` : '';
    list.push(['bad', `The connection to paddlectl dashboard is lost; trying again.${age}`]);
  }
  const silent = (cluster?.nodes ?? []).filter(node => node.state === 'unreachable').map(node => node.node);
  const named = silent.length > 3 ? `${silent.slice(0, 3).join(', ')} and ${silent.length - 3} more` : silent.join(', ');
  if (silent.length === 1) list.push(['bad', `Node ${named} does not answer.`]);
  if (silent.length > 1) list.push(['bad', `Nodes ${named} do not answer.`]);
  return list;
}

function bannersOfJob() {
  const {running, stalls, loss, broken_start: broken, is_diverged: isDiverged, diverged_to: cost} = record.live;
  const one = entry();
  const list = [];
  if (goneJob) list.push(['warn', 'The job was removed from the nodes. The page keeps what it has.']);
  for (const text of [broken, loss]) if (text) list.push(['bad', text.replace(/^node /, 'Node ')]);
  if (isDiverged) {
    const size = cost === null ? 'not finite' : figure(cost);
    list.push(['bad', `Training diverges: the cost is ${size}. Lower optimizer.learning_rate.`]);
  }
  for (const text of stalls ?? []) list.push(['warn', text]);
  if (!running && !goneJob) list.push(endOfJob(one));
  return list;
}

function endOfJob(one) {
  if (!one) return ['quiet', 'The job has ended.'];
  if (!one.has_failed) return ['quiet', `The job has ended${one.state === 'done' ? '' : `: ${one.state}`}.`];
  const failed = record.live.failure;
  if (!failed) return ['bad', `The job has ${one.state}.`];
  const link = html('a', {href: linkTo(place.job, failed.process)}, `Log of ${failed.process}`);
  const lines = failed.lines.length > 0 ? [html('pre', {tabindex: '0', 'aria-label': 'its last lines'}, failed.lines.join('\n'))] : [];
  return ['bad', `The job has failed: ${failed.cause}. `, link, ...lines];
}

const bannerTexts = () => [...bannersOfCluster(), ...(place.job !== '' && record?.live ? bannersOfJob() : [])];
const banners = () => bannerTexts().map(([kind, text, ...link]) => html('div', {class: `banner ${kind}`}, text, ...link));

// ---- Logs ----

const LINES_MAX = 5000;  // that the panel keeps while it follows the log
const PARTS_MIN = 2;  // that it keeps otherwise, however many lines these have
const POLL_MS = 2000;
const REFUSED_MS = 15000;  // before a refused request is repeated
const LOG_STEP = 256 * 1024;  // bytes that "Earlier lines" adds
const levels = {W: 'warn', E: 'bad', F: 'bad'};
const logHead = html('div', {class: 'title'});
const logLines = html('div', {class: 'lines', tabindex: '0', role: 'region', 'aria-label': 'Lines of the log'});
const logPanel = html('aside', {id: 'log', 'aria-label': 'Log', hidden: ''}, logHead, logLines);
// {job, process, next, size, parts: [{offset, lines}] that are shown, isInLine: the next text begins within a line, follow, isPaused,
// error, timer}
let log = null;

const firstOf = reader => reader.parts[0]?.offset ?? 0;

const lineMatches = line => passesFilter(filters.log, line.textContent);

function filterLog() {
  for (const line of logLines.children) line.hidden = !lineMatches(line);
  if (log?.follow) logLines.scrollTop = logLines.scrollHeight;
  drawLogHead();
}

function addLines(text, offset) {
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const shown = log.follow ? lines.slice(-LINES_MAX) : lines;
  const fresh = shown.map(line => {
    const level = /^[WEF]\d{4} /.test(line) ? levels[line[0]] : '';
    const element = html('div', level ? {class: level} : {}, line === '' ? ' ' : line);
    element.hidden = !lineMatches(element);
    return element;
  });
  logLines.append(...fresh);
  log.parts.push({offset, lines: fresh.length});
  while (logLines.childElementCount > LINES_MAX && (log.follow || log.parts.length > PARTS_MIN)) removeLine();
  if (log.follow) logLines.scrollTop = logLines.scrollHeight;
}

function removeLine() {
  logLines.firstChild.remove();
  log.parts[0].lines -= 1;
  if (log.parts[0].lines === 0) log.parts.shift();
}

// The lines from now on follow none of the shown: the first part of a log, or one that began anew.
function startAnew(reader) {
  logLines.replaceChildren();
  reader.parts = [];
}

async function readLog(reader) {
  clearTimeout(reader.timer);
  const at = reader.next === null ? '' : `&offset=${reader.next}`;
  let pause = POLL_MS;
  try {
    const answer = await fetch(`log?job=${encodeURIComponent(reader.job)}&process=${encodeURIComponent(reader.process)}${at}`,
                               {signal: AbortSignal.timeout(SILENCE_MS)});
    const part = await answer.json();
    if (reader !== log) return;
    reader.error = answer.ok ? '' : part.error?.message ?? 'the log cannot be read';
    if (!answer.ok) pause = REFUSED_MS;
    if (answer.ok) {
      if (part.text !== '' && part.offset !== reader.next) startAnew(reader);
      const hasMore = part.text !== '' && part.next < part.size;
      if (hasMore) pause = 0;
      Object.assign(reader, {next: part.next, size: part.size, isPaused: hasMore && !reader.follow});
      if (part.text !== '') addLines(reader.isInLine ? part.text.slice(part.text.indexOf('\n') + 1) : part.text, part.offset);
      reader.isInLine = false;
    }
  } catch {
    if (reader !== log) return;
    reader.error = 'paddlectl dashboard does not answer; trying again';
  }
  drawLogHead();
  if (!reader.isPaused) reader.timer = setTimeout(readWhenShown, pause, reader);
}

function readWhenShown(reader) {
  if (document.hidden) reader.timer = setTimeout(readWhenShown, POLL_MS, reader);
  else if (reader === log) readLog(reader);
}

// Shows the log from byte `from` on; null: its end.
function openLog(process, from = null) {
  if (log) clearTimeout(log.timer);
  log = process === '' ? null :
    {job: place.job, process, next: from, size: 0, parts: [], isInLine: from > 0, follow: from === null, isPaused: false, error: '',
     timer: 0};
  logPanel.hidden = log === null;
  document.documentElement.classList.toggle('with-log', log !== null);
  logLines.replaceChildren();
  if (log) readLog(log);
  drawLogHead();
}

function drawLogHead() {
  if (!log) return;
  const names = (record?.processes ?? []).map(process => process.role);
  const options = [...new Set([...names, log.process])].map(role => html('option', {value: role}, role));
  const choose = html('select', {'aria-label': 'Process'}, ...options);
  choose.onchange = event => { location.hash = linkTo(place.job, event.target.value); };
  const follow = html('input', {type: 'checkbox', id: 'follow'});
  follow.onchange = event => setFollow(event.target.checked);
  const total = logLines.childElementCount;
  const matching = filters.log === '' ? total : [...logLines.children].filter(line => !line.hidden).length;
  const count = log.error !== '' ? log.error : filters.log === '' ? counted(total, 'line') : `${matching} of ${counted(total, 'line')}`;
  patchChildren(logHead, [
    html('h2', {}, 'Log'), choose, filterBox('log', 'Filter lines', filterLog),
    html('label', {}, follow, ' follow'), html('span', {class: log.error === '' ? 'quiet' : 'bad'}, count),
    ...(firstOf(log) > 0 ? [button('Earlier lines', () => openLog(log.process, Math.max(0, firstOf(log) - LOG_STEP)), {class: 'earlier'})] : []),
    ...(log.isPaused ? [button('Later lines', readOn, {class: 'later'})] : []),
    button('Close', closeLog, {'aria-keyshortcuts': 'Escape', class: 'last'})]);
  logHead.querySelector('select').value = log.process;
  logHead.querySelector('#follow').checked = log.follow;
}

// Reads one more part of a log whose end is far.
function readOn() {
  log.isPaused = false;
  readLog(log);
}

function setFollow(follow) {
  if (follow && log.isPaused) return openLog(log.process);
  log.follow = follow;
  if (follow) logLines.scrollTop = logLines.scrollHeight;
  drawLogHead();
}

function closeLog() {
  location.hash = linkTo(place.job);
}

// The reader who scrolls up reads; at the end again, the log follows again. Other sizes of the panel
// move the lines too.
let logSize = '';
const sizeOfLog = () => `${logLines.clientWidth} ${logLines.clientHeight}`;
new ResizeObserver(() => {
  logSize = sizeOfLog();
  if (log?.follow) logLines.scrollTop = logLines.scrollHeight;
}).observe(logLines);
logLines.onscroll = () => {
  if (logSize !== sizeOfLog() || !log || log.parts.length === 0) return;
  const atEnd = logLines.scrollHeight - logLines.scrollTop - logLines.clientHeight < 30;
  if (log.isPaused) {
    if (atEnd) readOn();
  } else if (log.follow !== atEnd) {
    log.follow = atEnd;
    drawLogHead();
  }
};

// ---- Changes ----

const dialog = html('dialog', {'aria-labelledby': 'question'});

// Asks in a dialog; `answers`: [[text of the button, request]].
function ask(question, text, answers) {
  const close = button('Cancel', () => dialog.close());
  const result = html('p', {role: 'status'});
  const buttons = answers.map(([name, request]) => button(name, async () => {
    for (const one of buttons) one.disabled = true;
    result.textContent = 'Asking the nodes...';
    result.textContent = await change(request);
    close.textContent = 'Close';
    close.focus();
  }, {class: 'danger'}));
  dialog.replaceChildren(html('h2', {id: 'question'}, question), paragraph(text), result,
                         html('div', {class: 'buttons'}, close, ...buttons));
  dialog.showModal();
}

async function change(request) {
  try {
    const answer = await fetch(request, {method: 'POST', headers: {'X-Paddlectl': '1'}});
    const {done, error} = await answer.json();
    return answer.ok ? done : [error?.message, error?.hint].filter(Boolean).join('; ');
  } catch {
    return 'paddlectl dashboard does not answer.';
  }
}

function askToStop() {
  const request = `stop?job=${encodeURIComponent(place.job)}`;
  ask(`Stop ${place.job}?`,
      '"Stop" saves the job first, so that it can be resumed from there. "Stop now" saves nothing: what was trained since ' +
      'the last snapshot is lost.',
      [['Stop', request], ['Stop now', `${request}&now=1`]]);
}

function askToRestart(process) {
  ask(`Restart ${process}?`, `Its supervisor ends the process and starts it again, in job ${place.job}.`,
      [['Restart', `restart?job=${encodeURIComponent(place.job)}&process=${encodeURIComponent(process)}`]]);
}

// ---- Connection ----

const RETRY_MS = 3000;
const SILENCE_MS = 40000;  // an event follows each look at the nodes, every 2 seconds
let stream = null;  // null while the tab is hidden, so that hidden tabs take no connection
let retry = 0;
let seen = '';  // id of the newest event about this place; the server sends what came after it
let lastEventAt = 0;  // performance.now()

function disconnect() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

function connect() {
  disconnect();
  if (document.hidden) return;
  lastEventAt = performance.now();
  const query = [['job', place.job], ['seen', seen]].filter(([, value]) => value !== '')
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  const source = new EventSource(`events${query === '' ? '' : `?${query}`}`);
  stream = source;
  const on = (name, receive) => source.addEventListener(name, event => {
    if (source !== stream) return;
    isConnected = true;
    [lastEventAt, seen] = [performance.now(), event.lastEventId];
    receive(JSON.parse(event.data));
  });
  on('cluster', data => {
    cluster = data;
    document.title = titleText();
    redrawKeys([ALWAYS]);
  });
  on('job', data => {
    goneJob = false;
    record = {...record, ...data};
    redrawKeys(Object.keys(data));
  });
  on('gone', () => {
    goneJob = true;
    redrawKeys(['gone']);
  });
  source.onopen = () => {
    if (source !== stream) return;
    isConnected = true;
    redrawKeys(['connection']);
  };
  source.onerror = () => {
    if (source !== stream) return;
    isConnected = false;
    redrawKeys(['connection']);
    if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, RETRY_MS);
  };
}

// A connection may be dead although nothing has closed it.
function connectAfterSilence() {
  if (!stream || performance.now() - lastEventAt < SILENCE_MS) return;
  isConnected = false;
  redrawKeys(['connection']);
  connect();
}

// ---- Keys and places ----

let overviewScroll = 0;  // when it was left
let logOpener = null;  // the element that had the focus

function go(isFirst) {
  const former = place;
  place = placeOf(location.hash);
  if (isFirst || place.job !== former.job) {
    if (former.job === '') overviewScroll = scrollY;
    [record, goneJob, seen] = [null, false, ''];
    filters.processes = '';
    connect();
    redrawAll();
    focusesHeading = !isFirst;
    requestAnimationFrame(() => { if (!isFirst) scrollTo(0, place.job === '' ? overviewScroll : 0); });
  }
  if (isFirst || place.log !== former.log || place.job !== former.job) {
    if (former.log === '') logOpener = document.activeElement;
    openLog(place.log);
    if (place.log !== '' && former.log === '') logLines.focus({preventScroll: true});
    if (place.log === '' && former.log !== '' && logOpener?.isConnected) logOpener.focus({preventScroll: true});
  }
  document.title = titleText();
  redrawKeys(['place']);
}

document.onkeydown = event => {
  const typing = event.target.matches?.('input, select, textarea');
  const clears = event.target.type === 'search' && event.target.value !== '';  // what Escape does there
  if (event.key === 'Escape' && !dialog.open && log && !clears) closeLog();
  if (event.key !== '/' || typing || dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
  const box = document.getElementById(log ? 'filter-log' : place.job === '' ? 'filter-jobs' : 'filter-processes');
  if (!box) return;
  event.preventDefault();
  box.focus();
  box.select();
};

if (settings.live) {
  const skip = button('Skip to the content', () => main.focus(), {class: 'skip'});
  document.documentElement.classList.add('live');
  main.tabIndex = -1;
  document.body.prepend(skip, header, bannerBox);
  main.after(logPanel, dialog);
  addEventListener('hashchange', () => go(false));
  setInterval(connectAfterSilence, RETRY_MS);
  document.onvisibilitychange = () => {
    document.title = titleText();
    if (document.hidden) disconnect();
    else connect();
  };
  go(true);
}

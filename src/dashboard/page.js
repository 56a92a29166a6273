'use strict';
// Fetches the data once a second and shows it. All text is inserted by textContent.

const PLOTTED = 120;    // seconds
const SMOOTHED = 5;     // seconds over which displayed rates are averaged
const LATENCY_OF = 60;  // seconds
const TIMEOUT = 5000;   // ms

const at = id => document.getElementById(id);
const samples = [];     // the received data, the latest at the end
const cards = new Map();

// make('p', 'class', 'text' or child, ...)
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// ---- numbers

const sum = numbers => Object.values(numbers).reduce((left, right) => left + right, 0);
const admitted = limit => sum(limit.requests.passed) + sum(limit.requests.delayed) + sum(limit.requests.delayed_dry_run);
const denied = limit => sum(limit.requests.rejected);
const rehearsed = limit => sum(limit.requests.rejected_dry_run);  // would be denied without the dry run
const inDryRun = limit => rehearsed(limit) + sum(limit.requests.delayed_dry_run);
const overLimit = limit => denied(limit) + rehearsed(limit);
const fromCache = limit => limit.requests.rejected.cache + limit.requests.rejected_dry_run.cache;
const near = limit => limit.near_limit;

function short(number) {
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e4]])
    if (number >= size) return (number / (size === 1e4 ? 1e3 : size)).toPrecision(3) + unit;
  if (number === 0 || number >= 100) return String(Math.round(number));
  return number.toFixed(1);
}
const percent = part => (100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0) + ' %';
function bytes(number) {
  for (const [unit, size] of [['GB', 2 ** 30], ['MB', 2 ** 20], ['kB', 2 ** 10]])
    if (number >= size) return (number / size).toFixed(number / size < 10 ? 1 : 0) + ' ' + unit;
  return number + ' B';
}
// In the notation of nginx.
function duration(ms) {
  const [unit, size] = [['d', 864e5], ['h', 36e5], ['m', 6e4], ['s', 1e3], ['ms', 1]].find(each => ms % each[1] === 0);
  return ms / size + unit;
}
const milliseconds = us => us === null ? '–' : us < 1000 ? (us / 1000).toFixed(2) + ' ms' : (us / 1000).toPrecision(3) + ' ms';

// The sample from this many seconds ago, or the oldest one.
function ago(seconds) {
  const end = samples.at(-1).now_ms - seconds * 1000 - 500;
  return samples.find(sample => sample.now_ms >= end) ?? samples.at(-1);
}
const limitOf = (sample, name) => sample.limits.find(limit => limit.name === name);
const serverOf = (sample, server) => sample.stores.find(each => each.store === server.store && each.node === server.node);

// The increase of a counter: a counter that is smaller than before has been reset.
const grown = (before, now) => now >= before ? now - before : now;

// The rate per second between two samples.
function rate(then, now, before, after) {
  const seconds = (now.now_ms - then.now_ms) / 1000;
  return seconds > 0 ? grown(before, after) / seconds : 0;
}

// ---- the plot of one limit

function points(name, count) {
  const list = [];
  for (let i = Math.max(1, samples.length - PLOTTED); i < samples.length; i++) {
    const [then, now] = [samples[i - 1], samples[i]];
    const [before, after] = [limitOf(then, name), limitOf(now, name)];
    list.push(before && after ? rate(then, now, count(before), count(after)) : 0);
  }
  return list;
}

// The smallest of 1, 2, 5, 10, ... that is not below the value.
function ceiling(value) {
  const size = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map(each => each * size).find(each => each >= value);
}

function plot(canvas, lower, upper) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (width === 0) return;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const out = canvas.getContext('2d');
  out.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const color = name => style.getPropertyValue(name).trim();
  const most = ceiling(Math.max(1, ...lower.map((value, i) => value + upper[i])));
  const [top, bottom] = [14, height - 16];
  const y = value => bottom - value / most * (bottom - top);
  const x = i => width - (lower.length - 1 - i) * width / (PLOTTED - 1);

  out.strokeStyle = color('--line');
  out.fillStyle = color('--faint');
  out.font = '11px system-ui, sans-serif';
  for (const part of [0, 0.5, 1]) {
    const line = Math.round(y(most * part)) + 0.5;
    out.beginPath();
    out.moveTo(0, line);
    out.lineTo(width, line);
    out.stroke();
  }
  out.fillText(short(most) + ' requests/s', 2, top - 3);
  for (const [label, align, part] of [['2 min ago', 'left', 0], ['1 min', 'center', 0.5], ['now', 'right', 1]]) {
    out.textAlign = align;
    out.fillText(label, part * width, height - 3);
  }

  const area = (from, to, fill) => {
    if (!to.some((value, i) => value > from[i])) return;
    out.beginPath();
    to.forEach((value, i) => out.lineTo(x(i), y(value)));
    for (let i = from.length - 1; i >= 0; i--) out.lineTo(x(i), y(from[i]));
    out.closePath();
    out.globalAlpha = 0.3;
    out.fillStyle = fill;
    out.fill();
    out.globalAlpha = 1;
    out.beginPath();
    to.forEach((value, i) => out.lineTo(x(i), y(value)));
    out.strokeStyle = fill;
    out.lineWidth = 1.5;
    out.stroke();
  };
  area(lower.map(() => 0), lower, color('--admitted'));
  area(lower, lower.map((value, i) => value + upper[i]), color('--denied'));
}

// ---- limits

function cardOf(name) {
  if (cards.has(name)) return cards.get(name);
  const card = {
    about: make('p', ''), admitted: make('b', 'admitted'), denied: make('b', 'denied'), deniedLabel: make('span', ''),
    canvas: make('canvas', ''),
    used: make('p', ''), level: make('i', ''), near: make('p', ''),
  };
  card.canvas.setAttribute('role', 'img');
  card.root = make('article', 'limit', make('h3', '', name), card.about,
    make('div', 'rates', make('span', '', card.admitted, ' admitted/s'), make('span', '', card.denied, ' ', card.deniedLabel)),
    card.canvas, card.used, make('div', 'meter', card.level), card.near);
  card.root.dataset.limit = name;
  at('limits').append(card.root);
  cards.set(name, card);
  return card;
}

function level(element, part) {
  element.style.width = 100 * Math.min(1, part) + '%';
  element.className = part >= 1 ? 'full' : part >= 0.8 ? 'warn' : '';
}

function showLimit(limit, now, then) {
  const card = cardOf(limit.name);
  const before = limitOf(then, limit.name) ?? limit;
  const per = count => rate(then, now, count(before), count(limit));
  const much = limit.limit === null ? 'a variable limit' : limit.limit.toLocaleString('en');
  const burst = limit.burst === null ? '' : `, burst ${limit.burst.toLocaleString('en')}`;
  const dry = limit.dry_run ? ' · dry run' : '';
  card.about.textContent = `${much} ${limit.at_once ? 'at once' : `per ${limit.period ?? duration(limit.window_ms)}`}${burst} · ${limit.algorithm} · ${limit.store}${dry}`;
  card.admitted.textContent = short(per(admitted));
  const isRehearsed = limit.dry_run || per(rehearsed) > 0 && per(denied) === 0;
  card.denied.textContent = short(per(overLimit));
  card.deniedLabel.textContent = isRehearsed ? 'over the limit/s, dry run' : 'denied/s';
  const used = limit.fullest_permille / 1000;
  card.used.textContent = `fullest key seen in the ${limit.period ? 'period' : limit.at_once ? 'lease' : 'window'}: ${percent(used)} of its limit`;
  level(card.level, used);
  card.near.textContent = per(admitted) > 0 ? `${percent(Math.min(1, per(near) / per(admitted)))} of the admitted requests at 80 % of the limit or more` : ' ';
  card.canvas.setAttribute('aria-label', `${limit.name}: ${card.admitted.textContent} admitted/s, ${card.denied.textContent} ${card.deniedLabel.textContent}`);
  plot(card.canvas, points(limit.name, admitted), points(limit.name, overLimit));
}

function showLimits(now, then) {
  for (const [name, card] of cards) {
    if (limitOf(now, name)) continue;
    card.root.remove();
    cards.delete(name);
  }
  now.limits.forEach(limit => showLimit(limit, now, then));
  at('no-limits').hidden = now.limits.length > 0;
}

// ---- totals

function tile(className, value, label) {
  return make('div', 'tile ' + className, make('b', '', value), make('span', '', label));
}

function showTiles(now, then) {
  const total = count => now.limits.reduce((all, limit) => {
    const before = limitOf(then, limit.name);
    return all + (before ? rate(then, now, count(before), count(limit)) : 0);
  }, 0);
  const stores = count => now.stores.reduce((all, server) => {
    const before = serverOf(then, server);
    return all + (before ? rate(then, now, count(before), count(server)) : 0);
  }, 0);
  const share = (part, whole) => whole > 0 ? percent(part / whole) : '–';
  const calls = stores(server => server.calls);
  const zone = now.zone;
  at('tiles').replaceChildren(
    tile('admitted', short(total(admitted)), 'admitted per second'),
    tile('denied', short(total(denied)), 'denied per second'),
    ...(total(rehearsed) > 0 ? [tile('denied', short(total(rehearsed)), 'over the limit per second, dry run')] : []),
    tile('', share(total(fromCache), total(overLimit)), 'of denials known, without a call'),
    tile('', calls > 0 ? (stores(server => server.requests) / calls).toFixed(2) : '–', 'requests per store call'),
    tile('', zone ? percent(1 - zone.free_bytes / zone.bytes) : '–', zone ? `of ${bytes(zone.bytes)} shared memory` : 'shared memory'),
  );
}

// ---- keys

function showKeys(table, keys, noneSoFar) {
  const most = Math.max(1, ...keys.map(key => key.requests));
  const rows = keys.map(key => {
    const bar = make('i', '');
    bar.style.width = 100 * key.requests / most + '%';
    return make('tr', '', make('td', 'key', key.key, make('small', '', key.limit)),
      make('td', 'bar', make('div', 'meter', bar)), make('td', 'number', key.requests < 1e4 ? String(key.requests) : short(key.requests)));
  });
  table.replaceChildren(
    ...(rows.length ? [make('thead', '', make('tr', '', make('th', '', 'Key'), make('th', ''), make('th', 'number', 'Recent requests')))] : []),
    make('tbody', '', ...(rows.length ? rows : [make('tr', '', make('td', 'nothing', noneSoFar))])));
}

// ---- overrides

function whatOf(override) {
  return override.value === null ? override.what : 'limit ' + override.value;
}

function untilOf(override) {
  return override.until_ms === null ? 'until unset' : 'until ' + new Date(override.until_ms).toLocaleString();
}

function showOverrides(now) {
  const rows = now.overrides.map(each => make('tr', '', make('td', 'key', each.key, make('small', '', each.limit)),
    make('td', each.what === 'deny' ? 'down' : '', whatOf(each)), make('td', '', untilOf(each))));
  at('overrides').tBodies[0].replaceChildren(...rows);
  at('overrides-section').hidden = rows.length === 0;
}

// ---- stores

// The given percentile, in us, of `counts`, cumulative over buckets that end at `ends`. Interpolates linearly in a
// bucket; null if there are none.
function percentile(ends, counts, part) {
  const all = counts.at(-1);
  if (all === 0) return null;
  const wanted = all * part;
  const i = counts.findIndex(count => count >= wanted);
  if (i >= ends.length) return ends.at(-1);
  const [below, from] = i === 0 ? [0, 0] : [counts[i - 1], ends[i - 1]];
  return from + (ends[i] - from) * (wanted - below) / Math.max(1, counts[i] - below);
}

function latencies(now, server) {
  const before = samples.length > 1 ? serverOf(ago(LATENCY_OF), server)?.latency.counts : undefined;
  const began = !before || before.at(-1) > server.latency.counts.at(-1);
  const counts = server.latency.counts.map((count, i) => began ? count : count - before[i]);
  return [0.5, 0.9, 0.99].map(part => milliseconds(percentile(server.latency.le_us, counts, part)));
}

function memory(redis) {
  if (!redis) return '–';
  const of = redis.memory_max_bytes > 0 ? ' of ' + bytes(redis.memory_max_bytes) : '';
  return bytes(redis.memory_used_bytes) + of + (redis.eviction_unsafe ? ', may evict logs in use' : '');
}

function showStores(now, then) {
  const rows = now.stores.map(server => {
    const before = serverOf(then, server) ?? server;
    const per = count => rate(then, now, count(before), count(server));
    const calls = per(each => each.calls);
    const [className, text] = server.up === null ? ['unknown', 'not used yet'] : server.up ? ['up', 'up'] : ['down', 'down'];
    const row = make('tr', '', make('td', 'key', server.node, make('small', '', server.store)), make('td', className, text),
      make('td', '', short(calls)), make('td', '', calls > 0 ? (per(each => each.requests) / calls).toFixed(2) : '–'),
      make('td', '', short(per(each => sum(each.errors)))), ...latencies(now, server).map(each => make('td', '', each)),
      make('td', '', memory(server.redis)));
    // if the table is too narrow for columns, each number is shown after its name
    [...row.cells].forEach((cell, i) => { cell.dataset.label = at('stores').tHead.rows[0].cells[i].textContent; });
    return row;
  });
  at('stores').tBodies[0].replaceChildren(...rows);
  at('stores-section').hidden = rows.length === 0;
}

// ---- banners

// What has recently decided instead of that store.
function insteadOf(store, now, then) {
  const per = count => now.limits.reduce((all, limit) => {
    const before = limitOf(then, limit.name);
    return limit.stores.includes(store) && before ? all + rate(then, now, count(before), count(limit)) : all;
  }, 0);
  const by = source => limit => Object.values(limit.requests).reduce((all, sources) => all + sources[source], 0);
  const instead = [];
  if (per(by('local')) > 0) instead.push('this node decides alone');
  if (per(limit => limit.requests.passed.error) > 0) instead.push('requests are admitted');
  if (per(limit => limit.requests.rejected.error) > 0) instead.push('requests are answered with 503');
  return instead.join(', ') || 'no requests';
}

function showBanners(now, then) {
  const down = now.stores.filter(server => server.up === false);
  const minute = ago(LATENCY_OF);
  const dry = now.limits.filter(limit => {
    const before = limitOf(minute, limit.name);
    const onlyRehearsed = before && grown(inDryRun(before), inDryRun(limit)) > 0 && grown(denied(before), denied(limit)) === 0;
    return limit.dry_run || onlyRehearsed;
  });
  at('banners').replaceChildren(
    ...down.map(server => make('p', 'banner bad', `Redis ${server.node} (${server.store}) is down: ${insteadOf(server.store, now, then)}`)),
    ...now.limits.flatMap(limit => limit.records.map(record => make('p', 'banner' + (record.what === 'deny' ? ' bad' : ''),
      `All keys of ${limit.name}${limit.stores.length > 1 ? ` in ${record.store}` : ''}: ${whatOf(record)} ${untilOf(record)}`))),
    ...(dry.length ? [make('p', 'banner', `Dry run: nobody is denied by ${dry.map(limit => limit.name).join(', ')}`)] : []),
  );
  return down.length > 0;
}

// ---- update

function show() {
  const now = samples.at(-1);
  const then = ago(SMOOTHED);
  at('host').textContent = now.host;
  showTiles(now, then);
  showLimits(now, then);
  showKeys(at('denied-keys'), now.denied_keys, 'No request was denied.');
  showKeys(at('used-keys'), now.used_keys, 'No request was admitted.');
  showOverrides(now);
  showStores(now, then);
  return showBanners(now, then) ? ['degraded', 'live, Redis is down'] : ['live', 'live'];
}

function say(className, text) {
  const state = at('state');
  state.className = className;
  if (state.textContent !== text) state.textContent = text;
}

async function poll() {
  try {
    const answer = await fetch('?format=json', { cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT) });
    if (!answer.ok) throw new Error('status ' + answer.status);
    const sample = await answer.json();
    if (samples.length > 0 && sample.now_ms <= samples.at(-1).now_ms) samples.length = 0;  // another machine, or a reboot
    samples.push(sample);
    if (samples.length > PLOTTED + 1) samples.shift();
    say(...show());
  } catch (error) {
    say('lost', 'no answer: ' + error.message);
  }
  setTimeout(poll, 1000);
}

addEventListener('resize', () => samples.length > 0 && show());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => samples.length > 0 && show());
poll();

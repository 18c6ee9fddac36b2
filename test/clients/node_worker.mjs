// A worker in JavaScript, over the npm package pg: claims, outcomes, its own writes in the same transaction.
//
// Connects by the environment (PGHOST, PGPORT, PGUSER, PGDATABASE) and prints TAP; skipped where pg is not installed.
// Rules: GD-059, GD-150; D-1, D-8.

let pg;
try {
  pg = (await import('pg')).default;
} catch {
  console.log('1..0 # SKIP the npm package pg is not installed');
  process.exit(0);
}

let count = 0;
let failed = 0;
function check(good, what, detail) {
  count += 1;
  console.log(`${good ? 'ok' : 'not ok'} ${count} - ${what}`);
  if (!good) {
    failed += 1;
    console.log(`#   got ${JSON.stringify(detail)}`);
  }
}
const equal = (got, want, what) => check(JSON.stringify(got) === JSON.stringify(want), what, { got, want });

const client = new pg.Client();
await client.connect();
const rows = async (text, values = []) => (await client.query(text, values)).rows;
await rows('SET client_min_messages = warning');
await rows('CREATE EXTENSION IF NOT EXISTS gen_durable');
await rows('TRUNCATE gen_durable.instances CASCADE');
await rows('DROP TABLE IF EXISTS node_written');
await rows('CREATE TABLE node_written (id bigint)');

const [{ id, created }] = await rows('SELECT * FROM gen_durable.insert($1, $2, queue => $3)', ['hello', { n: 0, text: "it's 100% \"ünï\" 日本" }, 'node']);
equal(created, true, 'insert creates an instance');
let [job] = await rows('SELECT * FROM gen_durable.pick($1, $2)', ['node', 'javascript']);
equal([job.id, job.step, job.state], [id, 'start', { n: 0, text: "it's 100% \"ünï\" 日本" }], 'a job comes as it went');
await rows('SELECT gen_durable.complete($1, $2)', [job.token, { outcome: 'next', step: 'two', state: { n: 1 } }]);

[job] = await rows('SELECT * FROM gen_durable.pick($1, $2)', ['node', 'javascript']);
await rows('BEGIN');
await rows('INSERT INTO node_written VALUES ($1)', [id]);
await rows('SELECT gen_durable.complete($1, $2)', [job.token, { outcome: 'done', result: { ok: true } }]);
await rows('COMMIT');
equal(await rows('SELECT outcome, result FROM gen_durable.await($1)', [id]), [{ outcome: 'done', result: { ok: true } }], 'the result is what the worker made it');
let sqlstate = 'none';
try {
  await rows('BEGIN');
  await rows('INSERT INTO node_written VALUES ($1)', [id]);
  await rows('SELECT gen_durable.complete($1, $2)', [job.token, { outcome: 'done' }]);
} catch (error) {
  sqlstate = error.code;
}
await rows('ROLLBACK');
equal(sqlstate, 'GD001', 'a stale token raises GD001');
equal(await rows('SELECT count(*)::int FROM node_written'), [{ count: 1 }], 'and the write is gone with it');

await rows('CALL gen_durable.wait($1, $2)', [['wait'], '10 ms']);
await rows('SELECT gen_durable.insert($1, queue => $2)', ['waited', 'wait']);
await rows('CALL gen_durable.wait($1, $2)', [['wait', 'nobody'], '1 hour']);
equal((await rows('SELECT fsm FROM gen_durable.take($1, $2)', ['wait', 'javascript'])), [{ fsm: 'waited' }], 'wait returns when there is work');
sqlstate = 'none';
await rows('BEGIN');
try {
  await rows('CALL gen_durable.wait($1)', [['wait']]);
} catch (error) {
  sqlstate = error.code;
}
await rows('ROLLBACK');
equal(sqlstate, '25001', 'wait raises 25001 in a transaction');

const entries = Array.from({ length: 50 }, (_, n) => ({ queue: 'many', state: { n } }));
await rows('SELECT * FROM gen_durable.insert_all($1, $2)', ['many', JSON.stringify(entries)]);
const jobs = await rows('SELECT token, state FROM gen_durable.take($1, $2, 100)', ['many', 'javascript']);
equal(jobs.map((j) => j.state.n), entries.map((e) => e.state.n), 'a batch is claimed in order');
const results = await rows('SELECT * FROM gen_durable.complete_many($1)', [JSON.stringify(jobs.map((j) => ({ token: j.token, outcome: 'done' })))]);
equal(results.filter((r) => r.result === 'committed').length, 50, 'and committed in one call');

await client.end();
console.log(`1..${count}`);
process.exit(failed ? 1 : 0);

-- revive: a failed or cancelled row runs again at its step, or at another. D-7, D-10, D-15, GD-002
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
SELECT count(*) FROM unnest('{f,c,d,p,r,x}'::text[]) n, insert(n, '{"n": 1}', queue => n, correlation_key => n, concurrency_key => n);
SELECT picks('f'), fin('f', next_step('two')), picks('f'), fin('f', retry()), picks('f'), fin('f', stop('broken'));
SELECT cancel(id('c'), 'wrong'), picks('d'), fin('d', done()), picks('p'), fin('p', await_signal('{go}', 'two')), picks('x');
UPDATE instances SET crashes = 4, eligible_at = '2001-01-01' WHERE fsm = 'f';

-- At its step, attempt and crashes 0, due now, with its key and its address again.
SELECT 'revived' FROM revive(id('f'));
SELECT status, step, state, attempt, crashes, eligible_at = updated_at, finished_at, token, correlation_guard, concurrency_key, result FROM instances WHERE fsm = 'f';
SELECT find('f') = id('f'), signal_key('f', 'go'), picks('f'), fin('f', done());
-- An error of before is not the outcome of now.
SELECT outcome, error FROM await(id('f'));
-- At another step.
SELECT 'revived' FROM revive(id('c'), 'repair');
SELECT st('c'), cancel_requested_at FROM instances WHERE fsm = 'c';
SELECT picks('c'), fin('c', done());

-- What cannot be revived: what is done, what lives, what is unknown.
SELECT err(format('SELECT revive(%s)', id('d')), id('d')::text, 'done');
SELECT n, err(format('SELECT revive(%s)', id(n))) FROM unnest('{p,r,x}'::text[]) n;
SELECT err('SELECT revive(999)', '999'), err('SELECT revive(NULL)'), err(format('SELECT revive(%s, %L)', id('d'), ''));
SELECT st('d', 'p', 'r', 'x');

-- A row that was cancelled while held is free of that claim.
SELECT tok('x') AS token \gset
SELECT cancel(id('x'), force => true);
SELECT 'revived' FROM revive(id('x'));
SELECT err(format('SELECT complete(%L, done())', :'token')), picks('x'), held, cancel_requested FROM heartbeat(ARRAY[:'token'::uuid]);
SELECT fin('x', done());

-- Its correlation key may be another's by now: then it goes on without it.
SELECT count(*) FROM insert('k', queue => 'k', correlation_key => 'key');
SELECT picks('k'), fin('k', stop('x')), ins('k2', 'key');
SELECT 'revived' FROM revive(id('k'));
SELECT correlation_guard, find('key') = id('k2'), picks('k') FROM instances WHERE fsm = 'k';

-- Its concurrency key is asked for at the claim, as ever.
SELECT count(*) FROM unnest('{m,m2}'::text[]) n, insert(n, queue => 'm', concurrency_key => 'mm');
SELECT picks('m', 5), fin('m', stop('x')), picks('m', 5);
SELECT 'revived' FROM revive(id('m'));
SELECT picks('m', 5), blocked('m');

-- A parent that was cancelled while its children were out begins anew; they have nothing to join.
SELECT count(*) FROM insert('t', queue => 't');
SELECT picks('t'), fin('t', schedule_children('two', '[{"fsm": "kid", "queue": "kid"}]')), cancel(id('t'));
SELECT 'revived' FROM revive(id('t'));
SELECT st('t'), children_pending FROM instances WHERE fsm = 't';
SELECT picks('kid'), fin('kid', done());
SELECT st('t'), children_pending, jsonb_path_query_array(children, '$[*].status') FROM instances, pick('t', 'w') WHERE instances.fsm = 't';

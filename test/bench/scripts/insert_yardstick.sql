\set n random(1, 1000000)
INSERT INTO yardstick.instances (fsm, step, state)
VALUES ('bench', 'start', jsonb_build_object('order', :n::int, 'customer', 'customer 7')) RETURNING id;

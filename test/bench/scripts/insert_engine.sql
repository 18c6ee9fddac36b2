\set n random(1, 1000000)
SELECT id FROM gen_durable.insert('bench', jsonb_build_object('order', :n::int, 'customer', 'customer 7'));

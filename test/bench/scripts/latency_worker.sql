CALL gen_durable.wait('{bench}', '10 s');
SELECT token, id FROM gen_durable.take('bench', 'w');

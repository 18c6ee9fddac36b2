SELECT coalesce(floor.claim('bench', 'w', 100), '{}') AS ids \gset
SELECT floor.next((:ids)::bigint[], 'a');

-- Slots come back.
--
-- KEYS[2..] for each slot its gate; ARGV[3..] its ticket. Returns how many.
for i = 2, #KEYS do redis.call('ZREM', KEYS[i], ARGV[i + 1]) end
return #KEYS - 1

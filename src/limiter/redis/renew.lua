-- Slots are held: their leases begin anew, and are never made shorter. One that Redis has forgotten is held again.
-- Without slots it tells that a database is there.
--
-- KEYS[2..] for each slot its gate; ARGV[3..] its ticket. Returns how many.
for i = 2, #KEYS do
  local ends = redis.call('ZSCORE', KEYS[i], ARGV[i + 1])
  if not ends or tonumber(ends) < now + lease then hold(KEYS[i], ARGV[i + 1]) end
end
return #KEYS - 1

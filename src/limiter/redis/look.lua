-- What a key has free, as text: slots or tokens.
--
-- KEYS[2] the key. ARGV[3] its kind (g or r); ARGV[4] its capacity; ARGV[5] its rate.
if ARGV[3] == 'g' then return string.format('%.17g', slots(KEYS[2], tonumber(ARGV[4]))) end
return string.format('%.17g', (tokens(KEYS[2], tonumber(ARGV[4]), tonumber(ARGV[5]))))

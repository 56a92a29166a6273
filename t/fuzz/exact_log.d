exact_log: exact_log.cpp ../../src/limit/exact_log.hpp fuzz.hpp
../../src/limit/exact_log.hpp:
fuzz.hpp:

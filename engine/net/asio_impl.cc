// Asio's own code, compiled once. A standard header comes first, as in every other user: Asio frees
// with free() or delete by what the headers before it define, and both sides must choose the same.
#include <cstdlib>

#include <asio/impl/src.hpp>

// The implementation part of Asio, compiled once.
#include <asio/impl/src.hpp>

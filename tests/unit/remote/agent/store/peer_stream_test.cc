#include <sys/socket.h>

#include <gtest/gtest.h>

#include "remote/agent/store/peer_connection.h"
#include "tests/unit/remote/agent/store/peer_wire.h"

namespace paddle::agent {
namespace {

using test_wire::kLong;
using test_wire::within;

// Both ends of a connection, with somebody between them.
struct Pair {
  Pair() {
    int caller_end[2], listener_end[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, caller_end), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, listener_end), 0);
    caller.fd = UniqueFd(caller_end[0]);
    beside_caller = UniqueFd(caller_end[1]);
    beside_listener = UniqueFd(listener_end[0]);
    listener.fd = UniqueFd(listener_end[1]);
  }
  static PeerKeys keys() { return derive_peer_keys(peer_caller_key(token(), 1), {"store", 1}); }
  static Secret token() { return *Secret::from_bytes(Bytes(kSecretBytes, std::byte{1})); }

  PeerConnection caller{UniqueFd(), keys()};
  PeerConnection listener{UniqueFd(), keys()};
  UniqueFd beside_caller, beside_listener;
};

TEST(PeerStream, AChangedReplayedOrForeignRecordEndsIt) {
  for (int what = 0; what < 5; ++what) {
    const Pair pair;
    PeerStream caller(pair.caller, PeerStream::Side::kCaller, true);
    PeerStream listener(pair.listener, PeerStream::Side::kListener, true);
    ASSERT_TRUE(caller.write(as_bytes("hello"), within(kLong)));
    Bytes record(4 + 5 + 16), read(5);
    ASSERT_TRUE(read_exact(pair.beside_caller.get(), record, within(kLong)));
    if (what == 1) record[6] ^= std::byte{1};
    if (what == 2) record[3] = std::byte{0x7f};
    if (what == 4) {  // back to its sender
      ASSERT_TRUE(write_all(pair.beside_caller.get(), record, within(kLong)));
      EXPECT_FALSE(caller.read(read, within(kLong)));
    }
    ASSERT_TRUE(write_all(pair.beside_listener.get(), record, within(kLong)));
    const Status first = listener.read(read, within(kLong));
    EXPECT_EQ(static_cast<bool>(first), what != 1 && what != 2) << what;
    if (first) {
      EXPECT_EQ(as_text(read), "hello");
    }
    if (what == 3) {
      ASSERT_TRUE(write_all(pair.beside_listener.get(), record, within(kLong)));
      EXPECT_FALSE(listener.read(read, within(kLong))) << "the same record again";
    }
  }
}

}  // namespace
}  // namespace paddle::agent

// TLS under the links (LinkTest runs over it too): what an eavesdropper sees, who is let in, and
// what becomes of bytes that were changed on their way.
#include "engine/net/tls_stream.h"

#include <sys/socket.h>

#include "engine/net/tls_psk.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

constexpr NodeId kTrainer{Role::kTrainer, 7};

// A stream to memory: reads what the other end of the pipe wrote, at most `chunk` bytes at a time.
struct Wire {
  Bytes to_client, to_server;
  std::size_t chunk = 1U << 20U;
  std::size_t room = 1U << 30U;  // bytes that the next writes take
};

class WireEnd final : public Stream {
 public:
  WireEnd(Wire& wire, Bytes& in, Bytes& out) : wire_(wire), in_(in), out_(out) {}
  Result<std::size_t> read_some(std::span<std::byte> into) override {
    const std::size_t count = std::min({into.size(), in_.size(), wire_.chunk});
    std::copy_n(in_.begin(), count, into.begin());
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override {
    std::size_t total = 0;
    for (ByteSpan part : parts) {
      part = part.first(std::min(part.size(), wire_.room));
      wire_.room -= part.size();
      append_bytes(out_, part);
      total += part.size();
    }
    return total;
  }
  Status wait(Direction /*direction*/, TimePoint /*deadline*/) override { return {}; }

 private:
  Wire& wire_;
  Bytes& in_;
  Bytes& out_;
};

class TlsTest : public testing::Test {
 protected:
  void connect(const JobKeys& client_keys, NodeId claimed = kTrainer, std::uint64_t job = kJob) {
    client_ = make_tls_client(std::make_unique<WireEnd>(wire_, wire_.to_client, wire_.to_server),
                              claimed, kServer, job, *client_keys.pair(kTrainer, kServer));
    server_ = make_tls_server(std::make_unique<WireEnd>(wire_, wire_.to_server, wire_.to_client),
                              kServer, kJob, server_keys_);
  }
  // Turns until both would wait for more; the first error.
  Status shake_hands() {
    for (int i = 0; i < 1000; ++i) {
      for (const auto& end : {client_.get(), server_.get()}) {
        std::array<std::byte, 1> none{};
        const auto got = end->read_some(none);
        if (!got) return got.error();
      }
    }
    return {};
  }
  static Bytes pattern(std::size_t size) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<std::byte>((i * 2654435761U) >> 13U);
    return bytes;
  }
  // Writes at one end, in turns with reads at the other; all that arrived.
  Bytes carry(Stream& from, Stream& to, std::vector<ByteSpan> parts) {
    Bytes arrived;
    std::array<std::byte, 100'000> buffer;
    for (int turn = 0; turn < 100'000 && !parts.empty(); ++turn) {
      const auto put = from.write_some(parts);
      EXPECT_TRUE(put);
      std::size_t left = put ? *put : 0;
      while (left > 0) {
        const std::size_t count = std::min(left, parts.front().size());
        parts.front() = parts.front().subspan(count);
        left -= count;
        if (parts.front().empty()) parts.erase(parts.begin());
      }
      wire_.room += 7'000;
      for (;;) {
        const auto got = to.read_some(buffer);
        EXPECT_TRUE(got);
        if (!got || *got == 0) break;
        append_bytes<std::byte>(arrived, std::span(buffer).first(*got));
      }
    }
    return arrived;
  }

  Wire wire_;
  JobKeys server_keys_ = keys_of(1);
  std::unique_ptr<Stream> client_, server_;
};

TEST_F(TlsTest, CarriesEverythingBothWaysThroughAnyChunksAndFullPipes) {
  for (const std::size_t chunk : {1U, 7U, 4096U, 1U << 20U}) {
    wire_ = {};
    wire_.chunk = chunk;
    connect(keys_of(1));
    ASSERT_TRUE(shake_hands());
    wire_.room = 5'000;
    const Bytes header = pattern(64), body = pattern(chunk == 1 ? 20'000 : 700'001),
                end = pattern(3);
    const std::vector<ByteSpan> parts{header, body, end};
    Bytes all = header;
    append_bytes<std::byte>(all, body);
    append_bytes<std::byte>(all, end);
    EXPECT_EQ(carry(*client_, *server_, parts), all) << chunk;
    EXPECT_EQ(carry(*server_, *client_, parts), all) << chunk;
  }
}

TEST_F(TlsTest, WhoListensSeesNoByteOfIt) {
  connect(keys_of(1));
  ASSERT_TRUE(shake_hands());
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const ByteSpan parts[] = {as_bytes(text)};
  ASSERT_EQ(*client_->write_some(parts), text.size());
  EXPECT_EQ(as_text(wire_.to_server).find("quick"), std::string::npos);
  EXPECT_GT(wire_.to_server.size(), text.size());
}

TEST_F(TlsTest, TwoConnectionsWithTheSameKeySealDifferently) {
  std::vector<Bytes> sealed;
  for (int i = 0; i < 2; ++i) {
    wire_ = {};
    connect(keys_of(1));
    ASSERT_TRUE(shake_hands());
    const Bytes same(64);
    const ByteSpan parts[] = {same};
    ASSERT_TRUE(client_->write_some(parts));
    sealed.push_back(wire_.to_server);
  }
  EXPECT_NE(sealed[0], sealed[1]);
}

TEST_F(TlsTest, AWrongKeyAnotherNameOrAnotherJobIsRefused) {
  connect(keys_of(2));
  const Status key = shake_hands();
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Errc::kAuth) << key.error().message;
  connect(keys_of(1), {Role::kTrainer, 8});
  const Status name = shake_hands();
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, Errc::kAuth) << name.error().message;
  connect(keys_of(1), kTrainer, kJob + 1);
  EXPECT_FALSE(shake_hands());
}

TEST_F(TlsTest, EveryChangedByteEndsTheStream) {
  const Bytes sent = pattern(100);
  for (std::size_t at = 0; at < 100 + 22; ++at) {
    wire_ = {};
    connect(keys_of(1));
    ASSERT_TRUE(shake_hands());
    const ByteSpan parts[] = {sent};
    ASSERT_TRUE(client_->write_some(parts));
    ASSERT_EQ(wire_.to_server.size(), 100U + 22U);
    wire_.to_server[at] ^= std::byte{4};
    Bytes into(200);
    const auto got = server_->read_some(into);
    // A longer length in the header waits for bytes that do not come.
    if (got)
      EXPECT_EQ(*got, 0U) << at;
    else
      EXPECT_EQ(got.error().code, Errc::kAuth) << at << got.error().message;
  }
}

TEST_F(TlsTest, ARecordThatIsLostRepeatedOrExchangedEndsTheStream) {
  for (const int how : {0, 1, 2}) {
    wire_ = {};
    connect(keys_of(1));
    ASSERT_TRUE(shake_hands());
    std::vector<Bytes> records;
    for (int i = 0; i < 3; ++i) {
      const Bytes sent = pattern(100 + static_cast<std::size_t>(i));
      const ByteSpan parts[] = {sent};
      ASSERT_TRUE(client_->write_some(parts));
      records.push_back(std::exchange(wire_.to_server, {}));
    }
    const std::vector<std::vector<int>> orders{{0, 2}, {0, 0, 1}, {1, 0, 2}};
    for (const int i : orders[static_cast<std::size_t>(how)])
      append_bytes<std::byte>(wire_.to_server, records[static_cast<std::size_t>(i)]);
    Bytes into(1000);
    auto got = server_->read_some(into);
    if (got) got = server_->read_some(into);
    ASSERT_FALSE(got) << how;
    EXPECT_EQ(got.error().code, Errc::kAuth);
  }
}

TEST_F(TlsTest, AClearPeerAndAnEndlessHandshakeAreRefused) {
  connect(keys_of(1));
  append_bytes(wire_.to_server, as_bytes(std::string(64, 'P')));
  Bytes into(10);
  const auto clear = server_->read_some(into);
  ASSERT_FALSE(clear);
  EXPECT_EQ(clear.error().code, Errc::kAuth);
  wire_ = {};
  connect(keys_of(1));
  // A ClientHello of 60,000 bytes that never ends.
  const std::string start = {0x16, 3, 1, 0x40, 0, 1, 0, static_cast<char>(0xea), 0x60};
  append_bytes(wire_.to_server, as_bytes(start + std::string(16'379, 'x')));
  const auto endless = server_->read_some(into);
  EXPECT_FALSE(endless && *endless > 0);
  append_bytes(wire_.to_server, as_bytes(std::string(16'379, 'x')));
  EXPECT_FALSE(server_->read_some(into));
}

// A proven client that sends what ours never would.
class TlsMessagesTest : public TlsTest {
 protected:
  void SetUp() override {
    party_.key = *keys_of(1).pair(kTrainer, kServer);
    peer_ = make_ssl(party_);
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(peer_.get(), in_, out_);
    server_ = make_tls_server(std::make_unique<WireEnd>(wire_, wire_.to_server, wire_.to_client),
                              kServer, kJob, server_keys_);
    std::array<std::byte, 1> none{};
    for (int turn = 0; turn < 4; ++turn) {
      SSL_do_handshake(peer_.get());
      carry_to_server();
      ASSERT_TRUE(server_->read_some(none));
      BIO_write(in_, wire_.to_client.data(), static_cast<int>(wire_.to_client.size()));
      wire_.to_client.clear();
    }
    ASSERT_EQ(SSL_is_init_finished(peer_.get()), 1);
  }
  void carry_to_server() {
    Bytes bytes(BIO_ctrl_pending(out_));
    if (bytes.empty()) return;
    BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    append_bytes<std::byte>(wire_.to_server, bytes);
  }
  void update_key(int kind) {
    ASSERT_EQ(SSL_key_update(peer_.get(), kind), 1);
    ASSERT_EQ(SSL_do_handshake(peer_.get()), 1);
    carry_to_server();
  }
  void say(std::string_view text) {
    ASSERT_EQ(SSL_write(peer_.get(), text.data(), static_cast<int>(text.size())),
              static_cast<int>(text.size()));
    carry_to_server();
  }
  // All that the server reads before it waits, or the error that ends it.
  Result<std::string> heard() {
    std::string text;
    std::array<std::byte, 1000> buffer{};
    for (;;) {
      PADDLE_TRY(const std::size_t got, server_->read_some(buffer));
      if (got == 0) return text;
      text += as_text(std::span(buffer).first(got));
    }
  }

  TlsParty party_{.self = kTrainer, .server = kServer, .job_tag = kJob};
  Ssl peer_;
  BIO* in_ = nullptr;  // the peer's, owned by peer_
  BIO* out_ = nullptr;
};

TEST_F(TlsMessagesTest, AFewKeyUpdatesAreFollowed) {
  for (const int kind : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
    update_key(kind);
    say("on");
    const auto text = heard();
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(*text, "on");
  }
}

TEST_F(TlsMessagesTest, KeyUpdatesWithoutEndEndTheStream) {
  wire_.chunk = 100;
  for (int i = 0; i < 1000; ++i) update_key(SSL_KEY_UPDATE_NOT_REQUESTED);
  const auto text = heard();
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::kAuth);
  EXPECT_GT(wire_.to_server.size(), 20'000U);  // the rest is not even read
}

TEST_F(TlsMessagesTest, KeyUpdatesThatWantAnswersHoldNoMemory) {
  wire_.chunk = 100;
  wire_.room = 0;
  for (int i = 0; i < 1000; ++i) update_key(SSL_KEY_UPDATE_REQUESTED);
  EXPECT_FALSE(heard());
  EXPECT_GT(wire_.to_server.size(), 20'000U);
}

TEST_F(TlsMessagesTest, AByteAmongThemBuysNoMore) {
  Result<std::string> text = std::string();
  for (int i = 0; i < 100 && text; ++i) {
    update_key(SSL_KEY_UPDATE_NOT_REQUESTED);
    say("x");
    text = heard();
  }
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::kAuth);
}

}  // namespace
}  // namespace paddle::net

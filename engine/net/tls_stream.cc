#include "engine/net/tls_stream.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <openssl/err.h>

#include "engine/net/tls_psk.h"

namespace paddle::net {
namespace {

constexpr std::size_t kRecordBytes = 16U << 10U;           // the longest record of TLS
constexpr std::size_t kWriteBytesMax = 16 * kRecordBytes;  // sealed, then sent together
constexpr std::size_t kReadAheadBytes = 8 * kRecordBytes;  // from a proven peer
constexpr std::size_t kHandshakeBytesMax = 4096;           // our handshakes take about 400 each way
// Limits of TLS messages after the handshake, mostly key updates. This program sends one in 128
// GiB.
constexpr std::uint64_t kMessagesMax = 8;
constexpr std::uint64_t kBytesPerMessage = 1ULL << 30U;
// RFC 8446, 5.5, allows AES-GCM at most 2^24.5 records with one key.
constexpr std::uint64_t kBytesPerKey = (1ULL << 23U) * kRecordBytes;

// Reasons that mean different keys: the alerts of a client to a server that lacks its key, and the
// errors of the server.
constexpr std::array kOtherKeys{SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER,
                                SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
                                SSL_R_TLSV1_ALERT_DECRYPT_ERROR,
                                SSL_R_BINDER_DOES_NOT_VERIFY,
                                SSL_R_NO_SHARED_CIPHER,
                                SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM};

const char* reason_text(unsigned long code) {
  const char* const text = ERR_reason_error_string(code);
  return text == nullptr ? "?" : text;
}

using BioMethod = std::unique_ptr<BIO_METHOD, Free<&::BIO_meth_free>>;

class TlsStream final : public Stream {
 public:
  TlsStream(std::unique_ptr<Stream> inner, TlsParty party);

  Result<std::size_t> read_some(std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override;
  Status wait(Direction direction, TimePoint deadline) override;
  bool has_read_ahead() const override { return has_more_ && SSL_has_pending(ssl_.get()) == 1; }

 private:
  Result<bool> shake_hands();
  Status check_length() const;
  Status seal(std::span<const ByteSpan> parts);
  Status seal_record(ByteSpan bytes);
  Status send_sealed();
  Error failure();

  static BIO_METHOD* bio_method();
  static int on_bio_read(BIO* bio, char* into, int size);
  static int on_bio_write(BIO* bio, const char* from, int size);
  static long on_bio_control(BIO* bio, int command, long number, void* pointer);
  static void on_message(int is_ours, int version, int kind, const void* bytes, std::size_t size,
                         SSL* ssl, void* self);

  std::unique_ptr<Stream> inner_;
  TlsParty party_;
  Ssl ssl_;
  std::optional<Error> broken_;  // error of inner_
  bool is_proven_ = false;
  std::uint64_t received_ = 0;   // bytes from inner_
  std::uint64_t messages_ = 0;   // TLS messages received since the handshake
  bool has_more_ = false;        // the last read filled its span
  Bytes unsent_;                 // sealed bytes that inner_ could not take yet
  std::size_t taken_ = 0;        // bytes given to write_some() that are sealed but not all sent
  std::uint64_t under_key_ = 0;  // bytes sealed with the current key
};

// Records on their way to inner_; empty between calls.
Bytes& sealed_now() {
  static thread_local Bytes bytes;
  return bytes;
}

TlsStream::TlsStream(std::unique_ptr<Stream> inner, TlsParty party)
    : inner_(std::move(inner)), party_(std::move(party)), ssl_(make_ssl(party_)) {
  BIO* const bio = BIO_new(bio_method());
  PADDLE_CHECK(bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_msg_callback(ssl_.get(), &TlsStream::on_message);
  SSL_set_msg_callback_arg(ssl_.get(), this);
}

BIO_METHOD* TlsStream::bio_method() {
  static const BioMethod kMethod = [] {
    BioMethod made(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "paddle stream"));
    PADDLE_CHECK(made != nullptr);
    BIO_meth_set_read(made.get(), &TlsStream::on_bio_read);
    BIO_meth_set_write(made.get(), &TlsStream::on_bio_write);
    BIO_meth_set_ctrl(made.get(), &TlsStream::on_bio_control);
    return made;
  }();
  return kMethod.get();
}

int TlsStream::on_bio_read(BIO* bio, char* into, int size) {
  auto& self = *static_cast<TlsStream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self.broken_) return -1;
  if (const Status lawful = self.check_length(); !lawful) {
    self.broken_ = lawful.error();
    return -1;
  }
  const auto got =
      self.inner_->read_some({reinterpret_cast<std::byte*>(into), static_cast<std::size_t>(size)});
  if (!got) self.broken_ = got.error();
  if (!got) return -1;
  if (*got == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  self.received_ += *got;
  return static_cast<int>(*got);
}

int TlsStream::on_bio_write(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  append_bytes(sealed_now(), as_bytes({from, static_cast<std::size_t>(size)}));
  return size;
}

long TlsStream::on_bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

void TlsStream::on_message(int is_ours, int /*version*/, int kind, const void* /*bytes*/,
                           std::size_t /*size*/, SSL* /*ssl*/, void* self) {
  auto& stream = *static_cast<TlsStream*>(self);
  if (is_ours == 0 && kind == SSL3_RT_HANDSHAKE && stream.is_proven_) ++stream.messages_;
}

// Without these limits OpenSSL would process handshake bytes or messages as long as they arrive,
// and not return to the caller.
Status TlsStream::check_length() const {
  if (!is_proven_ && received_ > kHandshakeBytesMax) {
    return Error{Errc::kAuth, "the TLS handshake exceeds the size limit"};
  }
  if (messages_ > kMessagesMax + received_ / kBytesPerMessage) {
    return Error{Errc::kAuth, "it sends too many TLS messages"};
  }
  return {};
}

// True once the handshake is complete.
Result<bool> TlsStream::shake_hands() {
  if (is_proven_) return true;
  const int done = SSL_do_handshake(ssl_.get());
  const bool waits = done <= 0 && SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ;
  if (done <= 0 && !waits) return failure();
  PADDLE_TRY_STATUS(send_sealed());
  if (waits) return false;
  is_proven_ = true;
  party_.key.reset();
  SSL_set_default_read_buffer_len(ssl_.get(), kReadAheadBytes);
  SSL_set_read_ahead(ssl_.get(), 1);
  return true;
}

Result<std::size_t> TlsStream::read_some(std::span<std::byte> into) {
  PADDLE_CHECK(!into.empty());
  PADDLE_TRY(const bool is_ready, shake_hands());
  if (!is_ready) return std::size_t{0};
  std::size_t total = 0;
  while (total < into.size()) {
    const std::span<std::byte> left = into.subspan(total);
    std::size_t got = 0;
    const int read = SSL_read_ex(ssl_.get(), left.data(), left.size(), &got);
    total += got;
    if (read == 1) continue;
    const bool waits = SSL_get_error(ssl_.get(), read) == SSL_ERROR_WANT_READ;
    if (!waits && total == 0) return failure();  // after some bytes, the next call fails again
    break;
  }
  has_more_ = total == into.size();
  PADDLE_TRY_STATUS(send_sealed());  // the answer to a key update
  return total;
}

Result<std::size_t> TlsStream::write_some(std::span<const ByteSpan> parts) {
  PADDLE_TRY(const bool is_ready, shake_hands());
  if (!is_ready) return std::size_t{0};
  if (taken_ == 0) PADDLE_TRY_STATUS(seal(parts));
  PADDLE_TRY_STATUS(send_sealed());
  return unsent_.empty() ? std::exchange(taken_, 0) : std::size_t{0};
}

Status TlsStream::wait(Direction direction, TimePoint deadline) {
  if (direction == Direction::kRead && has_read_ahead()) return {};
  // During the handshake a writer waits for bytes of the peer, not for room.
  const bool reads = direction == Direction::kRead || unsent_.empty();
  return inner_->wait(reads ? Direction::kRead : Direction::kWrite, deadline);
}

// Seals up to kWriteBytesMax of the parts. Long parts are sealed in place, short parts share a
// record.
Status TlsStream::seal(std::span<const ByteSpan> parts) {
  std::array<std::byte, kRecordBytes> gathered;
  std::size_t held = 0;
  for (ByteSpan part : parts) {
    while (!part.empty() && taken_ < kWriteBytesMax) {
      const std::size_t count =
          std::min({part.size(), kRecordBytes - held, kWriteBytesMax - taken_});
      if (held == 0 && count == kRecordBytes) {
        PADDLE_TRY_STATUS(seal_record(part.first(count)));
      } else {
        std::ranges::copy(part.first(count), gathered.begin() + static_cast<std::ptrdiff_t>(held));
        held += count;
      }
      taken_ += count;
      part = part.subspan(count);
      if (held == kRecordBytes) {
        PADDLE_TRY_STATUS(seal_record(gathered));
        held = 0;
      }
    }
  }
  return held == 0 ? Status() : seal_record(std::span(gathered).first(held));
}

Status TlsStream::seal_record(ByteSpan bytes) {
  if (under_key_ >= kBytesPerKey) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    under_key_ = 0;
  }
  under_key_ += bytes.size();
  std::size_t put = 0;
  if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &put) != 1) return failure();
  PADDLE_CHECK(put == bytes.size());
  return {};
}

// Sends the sealed bytes of this call and of earlier ones; keeps in unsent_ what inner_ does not
// take.
Status TlsStream::send_sealed() {
  Bytes& now = sealed_now();
  if (!unsent_.empty()) {
    append_bytes<std::byte>(unsent_, now);
    now.clear();
  }
  Bytes& bytes = unsent_.empty() ? now : unsent_;
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ByteSpan left[] = {ByteSpan(bytes).subspan(sent)};
    auto put = inner_->write_some(left);
    if (!put) {
      now.clear();
      return std::move(put).error();
    }
    if (*put == 0) break;
    sent += *put;
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(sent));
  if (!now.empty()) unsent_.swap(now);
  return {};
}

// The reason why the stream failed. Also sends OpenSSL's alert to the peer.
Error TlsStream::failure() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  [[maybe_unused]] const auto ignored = send_sealed();
  if (broken_) return *broken_;
  if (code == 0) return Error{Errc::kUnreachable, "closed by peer"};
  const int reason = ERR_GET_REASON(code);
  if (is_proven_) {
    return Error{Errc::kAuth,
                 fmt::format("received data failed authentication ({})", reason_text(code)),
                 "the network changes the data, or a machine is faulty"};
  }
  if (std::ranges::find(kOtherKeys, reason) != kOtherKeys.end()) {
    return Error{Errc::kAuth, "it has other keys, or serves another job",
                 "another job may hold the port: paddlectl status"};
  }
  return Error{Errc::kAuth, fmt::format("no sealed connection ({})", reason_text(code)),
               "is it a process of this job, with the same --transport?"};
}

}  // namespace

std::unique_ptr<Stream> make_tls_client(std::unique_ptr<Stream> inner, NodeId self, NodeId server,
                                        std::uint64_t job_tag, const Secret& key) {
  TlsParty party{.self = self, .server = server, .job_tag = job_tag, .key = key};
  return std::make_unique<TlsStream>(std::move(inner), std::move(party));
}

std::unique_ptr<Stream> make_tls_server(std::unique_ptr<Stream> inner, NodeId self,
                                        std::uint64_t job_tag, const JobKeys& keys) {
  TlsParty party{.self = self, .server = self, .job_tag = job_tag, .keys = &keys};
  return std::make_unique<TlsStream>(std::move(inner), std::move(party));
}

}  // namespace paddle::net

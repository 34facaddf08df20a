#include "remote/agent/store/peer_connection.h"

#include <sodium.h>

#include <algorithm>

#include "base/check.h"

namespace paddle::agent {
namespace {

static_assert(kSecretBytes == crypto_aead_chacha20poly1305_IETF_KEYBYTES);
static_assert(kSealTagBytes == crypto_aead_chacha20poly1305_IETF_ABYTES);
static_assert(sizeof(SealNonce) == crypto_aead_chacha20poly1305_IETF_NPUBBYTES);

// Initializes libsodium, which selects the fastest code for this CPU.
void prepare() {
  static const bool prepared = sodium_init() >= 0;
  PADDLE_CHECK(prepared);
}

// libsodium does not accept a null pointer, not even for zero bytes.
std::byte no_byte{};

const unsigned char* raw(ByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.empty() ? &no_byte : bytes.data());
}
unsigned char* raw(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.empty() ? &no_byte : bytes.data());
}

constexpr std::size_t kLengthBytes = 4;

SealNonce nonce_of(std::uint64_t record) {
  SealNonce nonce{};
  store_le(nonce.data() + 4, record);
  return nonce;
}

}  // namespace

std::optional<ProvenCaller> check_claim(const Secret& token, std::string_view service,
                                        const Nonce& listener_nonce, const PeerClaim& claim) {
  const auto caller = load_le<std::uint32_t>(claim.data());
  PeerTranscript transcript{service, caller, {}, listener_nonce};
  std::copy_n(claim.begin() + sizeof caller, kNonceBytes, transcript.caller_nonce.begin());
  const PeerKeys keys = derive_peer_keys(peer_caller_key(token, caller), transcript);
  const ByteSpan proof = ByteSpan(claim).last(kSecretBytes);
  if (!equal_constant_time(proof, keys.caller_proof.reveal())) return std::nullopt;
  return ProvenCaller{caller, keys};
}

Result<PeerKeys> prove_to_listener(int fd, const Secret& caller_key, std::uint32_t caller,
                                   std::string_view service, TimePoint deadline) {
  PeerTranscript transcript{service, caller, {}, {}};
  PADDLE_TRY(transcript.caller_nonce, random_nonce());
  PADDLE_TRY_STATUS(read_exact(fd, transcript.listener_nonce, deadline));
  const PeerKeys keys = derive_peer_keys(caller_key, transcript);
  PeerClaim claim;
  store_le(claim.data(), caller);
  std::ranges::copy(transcript.caller_nonce, claim.begin() + sizeof caller);
  std::ranges::copy(keys.caller_proof.reveal(), claim.end() - kSecretBytes);
  PADDLE_TRY_STATUS(write_all(fd, claim, deadline));
  std::array<std::byte, kSecretBytes> answer;
  PADDLE_TRY_STATUS(read_exact(fd, answer, deadline));
  if (equal_constant_time(answer, keys.listener_proof.reveal())) return keys;
  return Error{Errc::kAuth, "the listener's proof does not match the key", ""};
}

SealTag seal(const Secret& key, const SealNonce& nonce, ByteSpan associated,
             std::span<std::byte> bytes) {
  prepare();
  SealTag tag;
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      raw(bytes), raw(std::span<std::byte>(tag)), nullptr, raw(ByteSpan(bytes)), bytes.size(),
      raw(associated), associated.size(), nullptr, raw(ByteSpan(nonce)), raw(key.reveal()));
  return tag;
}

bool unseal(const Secret& key, const SealNonce& nonce, ByteSpan associated,
            std::span<std::byte> bytes, ByteSpan tag) {
  prepare();
  return tag.size() == kSealTagBytes &&
         crypto_aead_chacha20poly1305_ietf_decrypt_detached(
             raw(bytes), nullptr, raw(ByteSpan(bytes)), bytes.size(), raw(tag), raw(associated),
             associated.size(), raw(ByteSpan(nonce)), raw(key.reveal())) == 0;
}

PeerStream::PeerStream(const PeerConnection& connection, Side side, bool sealed)
    : fd_(connection.fd.get()),
      sealed_(sealed),
      out_{side == Side::kCaller ? connection.keys.caller_seal : connection.keys.listener_seal},
      in_{side == Side::kCaller ? connection.keys.listener_seal : connection.keys.caller_seal} {}

Status PeerStream::write(ByteSpan bytes, TimePoint deadline) {
  if (!sealed_) return write_all(fd_, bytes, deadline);
  Bytes record(kLengthBytes + std::min(bytes.size(), kRecordBytesMax) + kSealTagBytes);
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kRecordBytesMax);
    const std::span<std::byte> all = std::span(record).first(kLengthBytes + size + kSealTagBytes);
    store_le(all.data(), static_cast<std::uint32_t>(size));
    std::copy_n(bytes.begin(), size, all.begin() + kLengthBytes);
    const SealTag tag = seal(out_.key, nonce_of(out_.records++), all.first(kLengthBytes),
                             all.subspan(kLengthBytes, size));
    std::copy(tag.begin(), tag.end(), all.end() - kSealTagBytes);
    PADDLE_TRY_STATUS(write_all(fd_, all, deadline));
    bytes = bytes.subspan(size);
  }
  return {};
}

Status PeerStream::read_record(TimePoint deadline) {
  std::array<std::byte, kLengthBytes> length;
  PADDLE_TRY_STATUS(read_exact(fd_, length, deadline));
  const auto size = load_le<std::uint32_t>(length.data());
  if (size == 0 || size > kRecordBytesMax) return Error{Errc::kAuth, "invalid record length", ""};
  record_.resize(size + kSealTagBytes);
  PADDLE_TRY_STATUS(read_exact(fd_, record_, deadline));
  const std::span<std::byte> all(record_);
  if (!unseal(in_.key, nonce_of(in_.records++), length, all.first(size), all.subspan(size)))
    return Error{Errc::kAuth, "the received data was modified in transit", ""};
  record_at_ = 0;
  record_end_ = size;
  return {};
}

Status PeerStream::read(std::span<std::byte> into, TimePoint deadline) {
  if (!sealed_) return read_exact(fd_, into, deadline);
  while (!into.empty()) {
    if (record_at_ == record_end_) PADDLE_TRY_STATUS(read_record(deadline));
    const std::size_t size = std::min(into.size(), record_end_ - record_at_);
    std::copy_n(record_.begin() + static_cast<std::ptrdiff_t>(record_at_), size, into.begin());
    record_at_ += size;
    into = into.subspan(size);
  }
  return {};
}

}  // namespace paddle::agent

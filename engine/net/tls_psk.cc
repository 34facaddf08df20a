#include "engine/net/tls_psk.h"

#include <array>

namespace paddle::net {
namespace {

// A PSK is bound to a hash, here SHA-256. The other suite with SHA-256 (ChaCha20-Poly1305) is
// slower on CPUs with AES instructions.
constexpr const char* kCipherSuite = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kCipherSuiteId{0x13, 0x01};
constexpr const char* kGroup = "X25519";
constexpr std::string_view kPskPurpose = "paddlectl tls 1 psk";
constexpr std::size_t kIdentityBytes = 4 + 8;  // the client's NodeId and the job's tag

using SslContext = std::unique_ptr<SSL_CTX, Free<&::SSL_CTX_free>>;
using SslSession = std::unique_ptr<SSL_SESSION, Free<&::SSL_SESSION_free>>;

const TlsParty& party_of(const SSL* ssl) {
  return *static_cast<const TlsParty*>(SSL_get_app_data(ssl));
}

// OpenSSL takes a PSK in the form of a session to resume. Returns null if there is no memory.
SSL_SESSION* new_session(SSL* ssl, const Secret& key) {
  const Secret psk = derive_secret(key, kPskPurpose, {});
  const ByteSpan bytes = psk.reveal();
  SslSession session(SSL_SESSION_new());
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipherSuiteId.data());
  const bool made =
      session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(
          session.get(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) == 1 &&
      SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  return made ? session.release() : nullptr;
}

int use_psk(SSL* ssl, const EVP_MD* /*hash*/, const unsigned char** identity, std::size_t* size,
            SSL_SESSION** session) {
  // OpenSSL copies the identity before it calls this function again on this thread.
  static thread_local std::array<std::byte, kIdentityBytes> bytes;
  const TlsParty& party = party_of(ssl);
  store_le(bytes.data(), pack(party.self));
  store_le(bytes.data() + 4, party.job_tag);
  *identity = reinterpret_cast<const unsigned char*>(bytes.data());
  *size = bytes.size();
  *session = party.key ? new_session(ssl, *party.key) : nullptr;
  return *session != nullptr ? 1 : 0;
}

// Without a session OpenSSL needs a certificate; there is none, so it refuses the client.
int find_psk(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  const TlsParty& party = party_of(ssl);
  *session = nullptr;
  if (size != kIdentityBytes) return 1;
  const auto* const bytes = reinterpret_cast<const std::byte*>(identity);
  const NodeId client = unpack(load_le<std::uint32_t>(bytes));
  if (load_le<std::uint64_t>(bytes + 4) != party.job_tag || client == party.server) return 1;
  const auto key = party.keys->pair(client, party.server);
  if (key) *session = new_session(ssl, *key);
  return 1;
}

SslContext make_context() {
  // Ignores the machine's openssl.cnf.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  SslContext made(SSL_CTX_new(TLS_method()));
  PADDLE_CHECK(made != nullptr);
  SSL_CTX* const to = made.get();
  PADDLE_CHECK(SSL_CTX_set_min_proto_version(to, TLS1_3_VERSION) == 1);
  PADDLE_CHECK(SSL_CTX_set_ciphersuites(to, kCipherSuite) == 1);
  PADDLE_CHECK(SSL_CTX_set1_groups_list(to, kGroup) == 1);
  SSL_CTX_set_session_cache_mode(to, SSL_SESS_CACHE_OFF);
  PADDLE_CHECK(SSL_CTX_set_num_tickets(to, 0) == 1);
  SSL_CTX_set_mode(to, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_use_session_callback(to, &use_psk);
  SSL_CTX_set_psk_find_session_callback(to, &find_psk);
  return made;
}

}  // namespace

Ssl make_ssl(const TlsParty& party) {
  static const SslContext kContext = make_context();
  Ssl ssl(SSL_new(kContext.get()));
  PADDLE_CHECK(ssl != nullptr);
  SSL_set_app_data(ssl.get(), const_cast<TlsParty*>(&party));
  if (party.keys != nullptr) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
  }
  return ssl;
}

}  // namespace paddle::net

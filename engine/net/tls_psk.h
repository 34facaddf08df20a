// Set-up of OpenSSL for a sealed connection: only TLS 1.3 with the pair's key as an external PSK
// (PROTOCOL.md, "Sealing").
#pragma once

#include <memory>
#include <optional>

#include <openssl/ssl.h>

#include "proto/keys.h"

namespace paddle::net {

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Ssl = std::unique_ptr<SSL, Free<&::SSL_free>>;

// One end of the connection, and the keys it may use.
struct TlsParty {
  NodeId self;
  NodeId server;  // the server's own TlsParty has self == server
  std::uint64_t job_tag = 0;
  std::optional<Secret> key = {};  // client only: the pair's key
  const JobKeys* keys = nullptr;   // server only: the client's hello names the client
};
// Makes a connection without a BIO. REQUIRES: `party` stays at its address until the handshake is
// over.
Ssl make_ssl(const TlsParty& party);

}  // namespace paddle::net

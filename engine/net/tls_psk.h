// OpenSSL's side of a sealed connection: TLS 1.3 with the pair's key as an external PSK, and
// nothing else (PROTOCOL.md, "Sealing").
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
  NodeId server;  // the same, at the server
  std::uint64_t job_tag = 0;
  std::optional<Secret> key = {};  // of the pair, at the client
  const JobKeys* keys = nullptr;   // at the server, which learns the client's name from its hello
};
// Without a BIO yet. The party stays where it is until the handshake is over.
Ssl make_ssl(const TlsParty& party);

}  // namespace paddle::net

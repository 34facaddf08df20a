// Ranks of a mesh on loopback, each on a thread of its own, or played by a test's own handshakes.
#pragma once

#include <netinet/in.h>

#include <memory>
#include <thread>

#include "base/fd.h"
#include "engine/net/mesh.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net::peer {

using Connections = std::vector<std::unique_ptr<Connection>>;

struct Ranks {
  explicit Ranks(std::uint32_t size) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      auto listener = listen({"127.0.0.1", 0});
      EXPECT_TRUE(listener);
      endpoints.push_back({"127.0.0.1", *port_of(*listener)});
      listeners.push_back(std::move(*listener));
      names.push_back("rank " + std::to_string(rank));
    }
  }
  MeshOptions options(std::uint32_t rank, std::uint32_t incarnation = 1, std::uint8_t key = 1) {
    return {.self = {.keys = keys_of(key),
                     .id = {Role::kTrainer, rank},
                     .incarnation = incarnation,
                     .job_tag = kJob,
                     .transport = transport,
                     .shares_memory = lanes == 1,
                     .lanes = lanes},
            .listener = std::move(listeners[rank]),
            .endpoints = endpoints,
            .names = names};
  }

  std::vector<UniqueFd> listeners;
  std::vector<Endpoint> endpoints;
  std::vector<std::string> names;
  Transport transport = Transport::kSealed;
  std::uint32_t lanes = 1;
};

inline std::thread connecting(MeshOptions options, Result<Connections>& into) {
  return std::thread([&into, own = std::make_shared<MeshOptions>(std::move(options))] {
    into = connect_ranks(*own, soon());
  });
}

inline Result<Connections> none() {
  return Error{Errc::kFailed, "not run"};
}

// A socket connected to a rank's port.
inline UniqueFd call(const Endpoint& endpoint) {
  const auto to = *parse_endpoint(endpoint);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), to.data(), static_cast<socklen_t>(to.size())), 0);
  EXPECT_TRUE(set_nonblocking(fd.get()));
  return fd;
}

}  // namespace paddle::net::peer

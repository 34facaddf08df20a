// One node's push over its agent's exchange: tells what there is, hears what is lacking, sends
// that.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "proto/agent.pb.h"
#include "remote/agent_client.h"
#include "remote/agent_exchange.h"
#include "remote/push_source.h"

namespace paddle::remote {

class FilePush {
 public:
  FilePush(Exchange& exchange, PushSource& source, const PushProgress& progress)
      : exchange_(exchange), source_(source), progress_(progress) {}

  // As AgentClient::push says.
  Result<PushStats> run(const std::vector<PushItem>& items, const std::string& keep_only);

 private:
  Status describe(const std::vector<PushItem>& items);
  Status tell_manifest();
  // The file's chunks; those the node lacks become blobs to send.
  Status tell_chunks(std::uint32_t file);
  Status send_blobs();
  Status send_pack(std::size_t begin, std::size_t end);
  Status acknowledge(std::size_t down_to);
  void add_blob(std::uint32_t file, const Blob& blob);

  Exchange& exchange_;
  PushSource& source_;
  const PushProgress& progress_;
  std::vector<wire::agent::PushEntry> entries_;
  std::vector<const LocalFile*> files_;      // of each entry; null: a symbolic link
  std::vector<std::uint32_t> missing_;       // indices of entries
  std::vector<Blob> blobs_;                  // to send, in this order
  std::vector<std::uint32_t> blob_entries_;  // of each
  std::vector<std::uint64_t> in_flight_;     // content bytes of the packs not acknowledged yet
  PushStats stats_;
};

}  // namespace paddle::remote

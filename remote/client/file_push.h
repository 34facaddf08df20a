// One node's push over its agent's exchange: sends a manifest, receives the list of what is
// missing, and sends that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/agent.pb.h"
#include "remote/client/exchange.h"
#include "remote/client/push_source.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {

class FilePush {
 public:
  FilePush(const NodeSpec& node, Exchange& exchange, PushSource& source,
           const PushProgress& progress)
      : node_(node), exchange_(exchange), source_(source), progress_(progress) {}

  // Implements AgentClient::push().
  Result<PushStats> run(const std::vector<PushItem>& items, const std::string& keep_only);

 private:
  struct PackRange {  // a range of blobs_
    std::size_t begin = 0, end = 0;
  };

  Status move_all(const std::vector<PushItem>& items, const std::string& keep_only);
  Status describe(const std::vector<PushItem>& items);
  Status send_manifest();
  // Sends the file's chunk list; chunks that the node lacks become blobs to send.
  Status send_chunk_list(std::uint32_t file);
  void cut_packs();
  PackShape shape_of(const PackRange& pack) const;
  std::uint64_t bytes_of(std::size_t pack) const;
  Status send_packs();
  Status send_pack(std::size_t index);
  Status acknowledge(std::size_t down_to);
  void add_blob(std::uint32_t file, const Blob& blob);
  wire::agent::Put::Blob blob_message(std::size_t blob) const;

  // Like send_packs(), but exchanges packs with other nodes.
  Status share_packs();
  std::optional<ServingNode> start_serving();
  Status pull(const FanOut::Step& step);
  Status wait_for_others();
  bool goes_on(std::uint64_t arrived) const { return !progress_ || progress_(0, arrived); }

  const NodeSpec& node_;
  Exchange& exchange_;
  PushSource& source_;
  const PushProgress& progress_;
  std::vector<wire::agent::PushEntry> entries_;
  std::vector<const LocalFile*> files_;      // file of each entry; null: a symbolic link
  std::vector<std::uint32_t> missing_;       // indices of entries
  std::vector<Blob> blobs_;                  // to send, in this order
  std::vector<std::uint32_t> blob_entries_;  // index of each blob's entry
  std::vector<PackRange> packs_;
  std::vector<std::size_t> in_flight_;      // packs not acknowledged yet
  std::optional<FanOut::NodeIndex> index_;  // this node's, if it shares packs with other nodes
  std::optional<ServingNode> serves_;
  bool serving_ = false;
  PushStats stats_;
};

}  // namespace paddle::remote

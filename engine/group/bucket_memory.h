// Memory of a rank's buckets. If the group has other ranks on this host, they read it in place.
#pragma once

#include <memory>
#include <span>

#include "engine/math/huge_pages.h"
#include "engine/net/lent_array.h"

namespace paddle::collective {

class BucketMemory {
 public:
  BucketMemory() = default;
  BucketMemory(BucketMemory&&) = default;
  BucketMemory& operator=(BucketMemory&&) = default;
  explicit BucketMemory(LargeArray<float>&& own) : own_(std::move(own)), floats_(own_) {}
  explicit BucketMemory(std::shared_ptr<net::peer::LentArray> lent)
      : lent_(std::move(lent)),
        floats_(reinterpret_cast<float*>(lent_->bytes().data()),
                lent_->bytes().size() / sizeof(float)) {}

  std::span<float> floats() const { return floats_; }

 private:
  LargeArray<float> own_;
  std::shared_ptr<net::peer::LentArray> lent_;
  std::span<float> floats_;
};

}  // namespace paddle::collective

#include "engine/group/host_ranks.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/math/initial.h"
#include "engine/math/optimizer.h"
#include "engine/table/parameter_set.h"

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kPartElements = 32U << 10U;  // processed at a time by one thread

// A bucket without the rank's own slice.
std::array<ElementRange, 2> others(ElementRange bucket, ElementRange own) {
  return {{{bucket.begin, own.begin}, {own.end, bucket.end}}};
}

// Number of buckets whose sums run while an earlier one is updated.
constexpr std::size_t kBucketsAhead = 2;

Status wait_for(std::vector<collective::Pending>& pending) {
  Status first;
  for (collective::Pending& one : pending) {
    Status done = one.wait();
    if (first && !done) first = std::move(done);
  }
  pending.clear();
  return first;
}

}  // namespace

void PackedBuckets::allocate(std::uint64_t elements, Parallel parallel) {
  // The gaps between parameters are sent, too.
  packed_.assign(elements, 0);
  residual_.assign(elements, 0.0F);
  parallel_ = std::move(parallel);
}

template <class Use>
void PackedBuckets::for_parts(ElementRange range, const Use& use) const {
  const auto part = [&](std::size_t number) {
    const std::uint64_t begin = range.begin + number * kPartElements;
    use(begin, std::min(kPartElements, range.end - begin));
  };
  const std::uint64_t parts = (range.size() + kPartElements - 1) / kPartElements;
  if (parallel_ && parts > 1) return parallel_(parts, part);
  for (std::uint64_t number = 0; number < parts; ++number) part(number);
}

std::span<kernels::Bf16> PackedBuckets::pack(ElementRange bucket, ElementRange own,
                                             std::span<const float> gradient, float weight) {
  for (const ElementRange& range : others(bucket, own)) {
    for_parts(range, [&](std::uint64_t begin, std::uint64_t count) {
      kernels::round_with_residual(count, gradient.data() + (begin - bucket.begin), weight,
                                   residual_.data() + begin, packed_.data() + begin);
    });
  }
  return this->bucket(bucket);
}

void PackedBuckets::pack_move(ElementRange range, std::span<const float> values,
                              std::span<float> copies) {
  for_parts(range, [&](std::uint64_t begin, std::uint64_t count) {
    const std::uint64_t at = begin - range.begin;
    kernels::round_move(count, values.data() + at, copies.data() + at, packed_.data() + begin);
  });
}

void PackedBuckets::apply_moves(ElementRange bucket, ElementRange own, std::span<float> copies) {
  for (const ElementRange& range : others(bucket, own)) {
    for_parts(range, [&](std::uint64_t begin, std::uint64_t count) {
      kernels::add_bf16(count, packed_.data() + begin, copies.data() + (begin - bucket.begin));
    });
  }
}

void PackedBuckets::forget() {
  std::ranges::fill(residual_, 0.0F);
}

Result<std::unique_ptr<HostRanks>> HostRanks::create(const wire::ParameterSet& set,
                                                     collective::Group& group, Options options) {
  std::unique_ptr<HostRanks> ranks(new HostRanks(set, group));
  options.packs = options.packs && group.size() > 1;
  ranks->state_width_ = static_cast<std::uint32_t>(optim::state_width(set.optimizer()));
  PADDLE_TRY_STATUS(ranks->check_memory(options));
  ranks->update_counts_.resize(static_cast<std::size_t>(set.parameters_size()));
  ranks->gradients_.allocate(group);
  ranks->values_ = group.allocate(ranks->layout().elements());
  for (const std::uint32_t parameter : ranks->layout().dense()) {
    optim::fill_initial(ranks->part(ranks->layout().parameter(parameter)),
                        set.parameters(static_cast<int>(parameter)), set.seed(), 0);
  }
  for (std::size_t i = 0; i < ranks->layout().buckets(); ++i) {
    PADDLE_TRY(Bucket bucket, ranks->make_bucket(i, options));
    ranks->buckets_.push_back(std::move(bucket));
  }
  if (options.packs) ranks->packed_.allocate(ranks->layout().elements(), options.parallel);
  return ranks;
}

// Memory for values and gradients of all parameters, and for values and optimizer state of the
// rank's own.
Status HostRanks::check_memory(const Options& options) const {
  const std::uint64_t floats_max = options.bytes_max / sizeof(float);
  const std::uint64_t of_element =
      2 + options.floats_beside + (options.packs ? PackedBuckets::kFloatsOfElement : 0);
  const std::uint64_t own = layout().elements() / group_.owners() * (1 + state_width_);
  if (layout().elements() <= floats_max / of_element &&
      own <= floats_max - of_element * layout().elements()) {
    return {};
  }
  return Error{Errc::kResource,
               fmt::format("{} floats of dense parameters with their gradients and the optimizer's "
                           "state exceed the limit of {} bytes",
                           layout().elements(), options.bytes_max),
               "use nodes with more memory, or fewer trainers on one"};
}

Result<HostRanks::Bucket> HostRanks::make_bucket(std::size_t number, const Options& options) const {
  const ElementRange mine = slice(number, group_.rank());
  Bucket bucket{.range = layout().bucket(number), .slice = mine, .own = {}, .table = {}};
  bucket.is_packed = options.packs && !layout().is_everyones(number);
  std::vector<parameter::DenseBlock> blocks;
  std::uint64_t offset = 0;
  for (const std::uint32_t parameter : layout().dense()) {
    const ElementRange all = layout().parameter(parameter);
    const ElementRange own = overlap(mine, all);
    if (own.size() == 0) continue;
    bucket.own.push_back({parameter, own, offset});
    blocks.push_back({.parameter = parameter, .begin = own.begin - all.begin, .size = own.size()});
    offset += own.size();
  }
  PADDLE_TRY(bucket.table,
             table::DenseTable::create(set_, blocks, options.bytes_max, options.parallel));
  return bucket;
}

Status HostRanks::lend(std::span<client::DenseParameter> parameters) {
  PADDLE_TRY_STATUS(gradients_.place(parameters));
  for (client::DenseParameter& one : parameters) {
    one.lent = part(layout().parameter(one.parameter));
  }
  return {};
}

Status HostRanks::update(std::span<const float> shares, float learning_rate) {
  const bool is_summed = !gradients_.carried().empty();
  std::vector<collective::Pending> sums(buckets_.size());
  std::vector<collective::Pending> gathers;
  const auto post = [&](std::size_t number) {
    if (number >= buckets_.size() || is_summed) return;
    const Bucket& bucket = buckets_[number];
    const auto gradients = gradients_.part(bucket.range);
    std::span<kernels::Bf16> packed;
    if (bucket.is_packed) {
      packed = packed_.pack(bucket.range, bucket.slice, gradients, shares[group_.rank()]);
      is_settled_ = false;
    }
    sums[number] = group_.reduce_scatter(gradients, shares, packed);
  };
  for (std::size_t i = 0; i < kBucketsAhead; ++i) post(i);
  Status applied;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Status summed = sums[i].wait();
    if (summed && applied) applied = apply(buckets_[i], learning_rate);
    if (!summed || !applied) {
      // The group reads the gradients until it has ended.
      const Error why = summed ? applied.error() : summed.error();
      group_.abort(why);
      (void)wait_for(sums);
      (void)wait_for(gathers);
      return why;
    }
    if (!is_summed) gathers.push_back(post_gather(buckets_[i]));
    post(i + kBucketsAhead);
  }
  for (const std::uint32_t parameter : layout().dense()) {
    if (!set_.parameters(static_cast<int>(parameter)).is_static()) ++update_counts_[parameter];
  }
  return finish_gathers(gathers);
}

collective::Pending HostRanks::post_gather(Bucket& bucket) {
  const auto values = part(bucket.range);
  if (!bucket.is_packed) return group_.all_gather(values);
  for (const Piece& piece : bucket.own) {
    packed_.pack_move(piece.range, bucket.table.values().subspan(piece.offset, piece.range.size()),
                      part(piece.range));
  }
  return group_.all_gather(values, packed_.bucket(bucket.range));
}

// `gathers` are those of all buckets, in order.
Status HostRanks::finish_gathers(std::vector<collective::Pending>& gathers) {
  for (std::size_t i = 0; i < gathers.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    if (!bucket.is_packed) continue;
    PADDLE_TRY_STATUS(gathers[i].wait());  // an error ends all of them
    packed_.apply_moves(bucket.range, bucket.slice, part(bucket.range));
  }
  return wait_for(gathers);
}

Status HostRanks::settle() {
  if (is_settled_) return {};
  std::vector<collective::Pending> gathers;
  for (Bucket& bucket : buckets_) {
    if (!bucket.is_packed) continue;
    copy_own_values(bucket);
    gathers.push_back(group_.all_gather(part(bucket.range)));
  }
  packed_.forget();
  is_settled_ = true;
  return wait_for(gathers);
}

Status HostRanks::apply(Bucket& bucket, float learning_rate) {
  if (bucket.own.empty()) return {};
  std::vector<std::span<const float>> gradients;
  for (const Piece& piece : bucket.own) gradients.push_back(gradients_.part(piece.range));
  const std::string broken = bucket.table.apply(learning_rate, gradients);
  if (!bucket.is_packed) copy_own_values(bucket);
  if (broken.empty()) return {};
  return Error{Errc::kFailed,
               fmt::format("the gradients of a step made values of '{}' or their optimizer's state "
                           "not finite",
                           broken),
               "lower optimizer.learning_rate, or bound gradients with optimizer.clip_global_norm"};
}

void HostRanks::copy_own_values(Bucket& bucket) {
  for (const Piece& piece : bucket.own) {
    const auto from = bucket.table.values().subspan(piece.offset, piece.range.size());
    std::ranges::copy(from, part(piece.range).begin());
  }
}

std::span<const float> HostRanks::values(std::uint32_t parameter) const {
  const ElementRange range = layout().parameter(parameter);
  return values_.floats().subspan(range.begin, range.size());
}

Status HostRanks::gather(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                         std::span<float> into) {
  const ElementRange all = layout().parameter(parameter);
  if (plane == 0 && is_settled_) {  // every rank has all values
    if (!into.empty()) std::ranges::copy(values(parameter), into.begin());
    return {};
  }
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    const ElementRange range = overlap(layout().bucket(number), all);
    if (range.size() == 0) continue;
    scratch_.resize(range.size());
    for (const Piece& piece : buckets_[number].own) {
      if (piece.parameter != parameter) continue;
      PADDLE_TRY(const auto state,
                 buckets_[number].table.read(plane, piece.offset, piece.range.size()));
      std::ranges::copy(
          state, scratch_.begin() + static_cast<std::ptrdiff_t>(piece.range.begin - range.begin));
    }
    // A small bucket is owned by the root, too, so nothing is sent.
    std::vector<collective::Pending> pending;
    for (std::uint32_t owner = 0; owner < group_.size(); ++owner) {
      if (layout().is_everyones(number)) break;
      const ElementRange piece = overlap(slice(number, owner), all);
      if (piece.size() == 0 || owner == root) continue;
      pending.push_back(group_.broadcast(owner, std::as_writable_bytes(std::span(scratch_).subspan(
                                                    piece.begin - range.begin, piece.size()))));
    }
    PADDLE_TRY_STATUS(wait_for(pending));
    if (into.empty()) continue;
    std::ranges::copy(scratch_,
                      into.begin() + static_cast<std::ptrdiff_t>(range.begin - all.begin));
  }
  return {};
}

Status HostRanks::spread(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                         std::span<const float> from, std::uint64_t update_count) {
  const ElementRange all = layout().parameter(parameter);
  update_counts_[parameter] = update_count;
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    Bucket& bucket = buckets_[number];
    const ElementRange range = overlap(bucket.range, all);
    if (range.size() == 0) continue;
    scratch_.resize(range.size());
    if (!from.empty()) {
      std::ranges::copy(from.subspan(range.begin - all.begin, range.size()), scratch_.begin());
    }
    PADDLE_TRY_STATUS(group_.broadcast(root, std::as_writable_bytes(std::span(scratch_))).wait());
    if (plane == 0) std::ranges::copy(scratch_, part(range).begin());
    for (const Piece& piece : bucket.own) {
      if (piece.parameter != parameter) continue;
      const auto own = std::span<const float>(scratch_).subspan(piece.range.begin - range.begin,
                                                                piece.range.size());
      PADDLE_TRY_STATUS(bucket.table.write(plane, piece.offset, own, update_count));
    }
  }
  return {};
}

std::uint64_t HostRanks::part_floats() const {
  std::uint64_t elements = 0;
  for (const Bucket& bucket : buckets_) elements += bucket.table.size();
  return elements * (1 + state_width_);
}

Status HostRanks::read_part(const Put& put) {
  PADDLE_CHECK(is_settled_);
  for (const Bucket& bucket : buckets_) {
    for (const Piece& piece : bucket.own) {
      for (std::uint32_t plane = 0; plane <= state_width_; ++plane) {
        PADDLE_TRY(const auto from, bucket.table.read(plane, piece.offset, piece.range.size()));
        PADDLE_TRY_STATUS(put(from));
      }
    }
  }
  return {};
}

Status HostRanks::restore_parts(const Take& take, std::span<const std::uint64_t> update_counts) {
  for (Bucket& bucket : buckets_) {
    for (const Piece& piece : bucket.own) {
      scratch_.resize(piece.range.size());
      for (std::uint32_t plane = 0; plane <= state_width_; ++plane) {
        PADDLE_TRY_STATUS(take(scratch_));
        PADDLE_TRY_STATUS(
            bucket.table.write(plane, piece.offset, scratch_, update_counts[piece.parameter]));
      }
    }
  }
  update_counts_.assign(update_counts.begin(), update_counts.end());
  std::vector<collective::Pending> gathers;
  for (Bucket& bucket : buckets_) {
    copy_own_values(bucket);
    gathers.push_back(group_.all_gather(part(bucket.range)));
  }
  return wait_for(gathers);
}

}  // namespace paddle::strategy

// data: the values of a float slot. Every float slot becomes such a layer, under its own name.
#include <algorithm>

#include "engine/nn/lowering.h"
#include "engine/nn/makers.h"

namespace paddle::nn {
namespace {

class FloatSlot final : public BatchInput {
 public:
  FloatSlot(std::size_t slot, std::size_t width) : slot_(slot), width_(width) {}

  Status fill(const Run& run, InputArrays& arrays) const override {
    const float* values = run.batch.slots[slot_].values.data();
    arrays.floats.assign(values + run.begin * width_, values + run.end * width_);
    return {};
  }

 private:
  std::size_t slot_;
  std::size_t width_;
};

class Data final : public Layer {
 public:
  Data(const config::SlotConfig& slot, std::size_t index, std::size_t slot_index)
      : Layer(slot.name, index, slot.width), slot_index_(slot_index) {}

  void redirect_inputs(std::span<const std::unique_ptr<Layer>>,
                       std::span<const std::uint32_t> readers) override {
    is_read_ = readers[index()] > 0;
  }

  Status forward(const Run& run, LayerAccess access, double&) const override {
    if (!is_read_) return {};  // the slot is only a label
    std::copy_n(run.batch.slots[slot_index_].values.data() + run.begin * width(),
                run.rows() * width(), access.output(index()));
    return {};
  }

  void backward(const Run&, LayerAccess) const override {}
  std::size_t gradient_width() const override { return 0; }

  void lower(Lowering& lowering) const override {
    if (!is_read_) return;
    const auto input = lowering.add_input(std::make_unique<FloatSlot>(slot_index_, width()));
    lowering.put_output(index(), input);
  }

 private:
  std::size_t slot_index_;
  bool is_read_ = false;
};

}  // namespace

std::unique_ptr<Layer> make_data(const config::SlotConfig& slot, std::size_t index,
                                 std::size_t slot_index) {
  return std::make_unique<Data>(slot, index, slot_index);
}

}  // namespace paddle::nn

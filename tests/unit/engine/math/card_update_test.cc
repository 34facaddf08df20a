#include "engine/math/card_update.h"

#include <string>

#include "engine/math/optimizer.h"
#include "tests/unit/engine/math/run_kernel.h"

namespace paddle::kernels::device {
namespace {

constexpr float kRate = 0.05F;

std::vector<wire::Optimizer> variants_of(std::string_view method) {
  wire::Optimizer plain;
  plain.set_method(std::string(method));
  plain.set_learning_rate(1);
  wire::Optimizer regularised = plain;
  regularised.set_clip_value(0.75F);
  regularised.set_l1(0.125F);
  regularised.set_l2(0.25F);
  wire::Optimizer other = plain;
  other.set_momentum(0.6F);
  other.set_beta1(0.5F);
  other.set_beta2(0.75F);
  other.set_epsilon(0.125F);
  other.set_rho(0.7F);
  other.set_beta(0.25F);
  other.set_weight_decay(0.5F);
  other.set_centered(false);
  wire::Optimizer averaged = regularised;
  averaged.set_momentum(0.9F);
  averaged.mutable_average()->set_window(0.5F);
  averaged.mutable_average()->set_window_min(2);
  averaged.mutable_average()->set_window_max(9);
  return {plain, regularised, other, averaged};
}

wire::ParameterSpec spec_of(float rate, bool is_delta = false) {
  wire::ParameterSpec spec;
  spec.set_name("w");
  spec.set_learning_rate(rate);
  spec.set_is_delta(is_delta);
  return spec;
}

// A parameter in two copies, for the kernel and for the CPU.
struct Parameter {
  struct Copy {
    std::vector<float> value;
    std::vector<float> state;
  };
  optim::UpdateRule rule;
  Copy card;
  Copy host;
  std::vector<float> gradient;

  Parameter(std::size_t size, const wire::Optimizer& optimizer, const wire::ParameterSpec& spec)
      : rule(optimizer, spec) {
    host.value = normals(size, size);
    host.state = nans(rule.state_width() * size);
    rule.start(host.value, host.state);
    card = host;
  }
  std::size_t size() const { return gradient.size(); }
  UpdatedParameter entry(std::size_t first, std::uint64_t count, float rate) {
    float* const average =
        rule.has_average() ? card.state.data() + (rule.state_width() - 1) * size() : nullptr;
    return {first,
            rule.step(rate, count),
            card.value.data(),
            gradient.data(),
            card.state.data(),
            size(),
            average,
            rule.has_average() ? rule.average_weight(count) : 0};
  }
  bool update_on_host(std::uint64_t count, float rate) {
    return rule.apply(rate, count, host.value, gradient, host.state);
  }
};

// All parameters in one launch; gives the flags.
std::vector<std::uint32_t> update(std::vector<Parameter>& parameters, std::uint64_t count,
                                  float rate) {
  std::vector<UpdatedParameter> table;
  std::size_t size = 0;
  for (Parameter& of : parameters) {
    table.push_back(of.entry(size, count, rate));
    size += of.size();
  }
  run(Update{size, table.size(), table.data()});
  std::vector<std::uint32_t> not_finite;
  for (const UpdatedParameter& of : table) not_finite.push_back(of.not_finite);
  return not_finite;
}

TEST(DeviceUpdate, EveryMethodHasTheBitsOfTheCpu) {
  for (const optim::Method& method : optim::methods()) {
    const std::string name(method.name);
    for (const wire::Optimizer& optimizer : variants_of(method.name)) {
      std::vector<Parameter> parameters;
      parameters.emplace_back(10, optimizer, spec_of(1, true));
      for (const std::size_t size : {1UL, 273UL, 2073UL}) {
        parameters.emplace_back(size, optimizer, spec_of(0.5F));
      }
      for (std::uint64_t count = 1; count <= 20; ++count) {
        const float rate = count == 20 ? 0 : kRate;  // the end of a schedule
        for (Parameter& of : parameters) {
          of.gradient = normals(count * 100, of.host.value.size());
        }
        EXPECT_EQ(update(parameters, count, rate), std::vector<std::uint32_t>(4, 0));
        for (Parameter& of : parameters) {
          EXPECT_TRUE(of.update_on_host(count, rate));
          expect_bits(of.card.value, of.host.value, name.c_str());
          expect_bits(of.card.state, of.host.state, name.c_str());
        }
      }
    }
  }
}

// Rows of a table, each named in some of the rounds only, beside the same ones on the CPU.
TEST(DeviceUpdate, Trap38RowsCountTheirOwnUpdatesAndHaveTheBitsOfTheCpu) {
  constexpr std::size_t kRows = 7;
  constexpr std::size_t kWidth = 5;
  for (const optim::Method& method : optim::methods()) {
    for (const wire::Optimizer& optimizer : variants_of(method.name)) {
      const optim::UpdateRule rule(optimizer, spec_of(0.5F));
      const std::size_t planes = rule.state_width();
      std::vector<float> values = normals(1, kRows * kWidth);
      std::vector<float> state(planes * values.size(), 0.0F);
      if (rule.has_average()) std::ranges::copy(values, state.end() - std::ssize(values));
      std::vector<std::uint32_t> updates(kRows, 0);
      updates[2] = 0xffffffffU;
      std::vector<std::vector<float>> host_values(kRows);
      std::vector<std::vector<float>> host_state(kRows);
      for (std::size_t row = 0; row < kRows; ++row) {
        host_values[row].assign(values.begin() + static_cast<std::ptrdiff_t>(row * kWidth),
                                values.begin() + static_cast<std::ptrdiff_t>((row + 1) * kWidth));
        host_state[row].resize(planes * kWidth);
        rule.start(host_values[row], host_state[row]);
      }
      std::vector<std::uint32_t> host_updates = updates;
      std::vector<std::uint32_t> not_finite{0};
      for (std::uint64_t round = 1; round < 9; ++round) {
        std::vector<std::uint32_t> numbers;
        for (std::uint32_t row = kRows; row-- > 0;) {
          if ((row + 1) % round != 1) numbers.push_back(row);
        }
        const std::vector<float> gradients = normals(round, numbers.size() * kWidth);
        std::vector<RowStep> steps(numbers.size());
        const optim::Step step = rule.unnumbered_step(kRate);
        const bool counts = optim::counts_updates(optimizer);
        if (counts) {
          run(CountUpdates{numbers.size(), numbers.data(), step, rule.counts_updates(),
                           rule.average(), updates.data(), steps.data()});
        }
        run(UpdateRows{
            .rows = numbers.size(),
            .width = kWidth,
            .numbers = numbers.data(),
            .step = step,
            .steps = counts ? steps.data() : nullptr,
            .gradients = gradients.data(),
            .values = values.data(),
            .state = state.data(),
            .plane_stride = values.size(),
            .averages = rule.has_average() ? state.data() + (planes - 1) * values.size() : nullptr,
            .not_finite = not_finite.data()});
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const std::uint32_t row = numbers[i];
          if (host_updates[row] < 0xffffffffU) ++host_updates[row];
          rule.apply(kRate, host_updates[row], host_values[row],
                     std::span(gradients).subspan(i * kWidth, kWidth), host_state[row]);
        }
      }
      EXPECT_EQ(not_finite[0], 0U);
      if (optim::counts_updates(optimizer)) {
        EXPECT_EQ(updates, host_updates);
      }
      for (std::size_t row = 0; row < kRows; ++row) {
        const auto part = [&](const std::vector<float>& all, std::size_t plane) {
          const auto at =
              all.begin() + static_cast<std::ptrdiff_t>(plane * values.size() + row * kWidth);
          return std::vector<float>(at, at + kWidth);
        };
        expect_bits(part(values, 0), host_values[row], method.name.data());
        for (std::size_t p = 0; p < planes; ++p) {
          const auto at = host_state[row].begin() + static_cast<std::ptrdiff_t>(p * kWidth);
          expect_bits(part(state, p), std::vector<float>(at, at + kWidth), method.name.data());
        }
      }
    }
  }
}

TEST(DeviceUpdate, NamesTheParametersThatAreNoLongerFinite) {
  for (const optim::Method& method : optim::methods()) {
    for (const wire::Optimizer& optimizer : variants_of(method.name)) {
      std::vector<Parameter> parameters;
      for (std::size_t size = 10; size < 13; ++size) {
        parameters.emplace_back(size, optimizer, spec_of(1));
        parameters.back().gradient = normals(size, size);
      }
      parameters[1].gradient[7] = std::nanf("");
      EXPECT_EQ(update(parameters, 1, kRate), (std::vector<std::uint32_t>{0, 1, 0}));
      EXPECT_FALSE(parameters[1].update_on_host(1, kRate));
    }
  }
}

// The square of the gradient is infinite; the value may be finite still.
TEST(DeviceUpdate, NamesAParameterWhoseStateIsNoLongerFinite) {
  int broken = 0;
  for (const optim::Method& method : optim::methods()) {
    for (const wire::Optimizer& optimizer : variants_of(method.name)) {
      std::vector<Parameter> parameters;
      parameters.emplace_back(10, optimizer, spec_of(1));
      parameters[0].gradient.assign(10, 1e30F);
      const std::vector<std::uint32_t> flags = update(parameters, 1, kRate);
      EXPECT_EQ(flags[0], parameters[0].update_on_host(1, kRate) ? 0U : 1U) << method.name;
      const auto is_finite = [](float x) { return std::isfinite(x); };
      if (flags[0] == 1 && std::ranges::all_of(parameters[0].card.value, is_finite)) ++broken;
    }
  }
  EXPECT_GT(broken, 0);
}

}  // namespace
}  // namespace paddle::kernels::device

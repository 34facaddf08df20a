#include "tests/gpu/card.h"

#include "base/check.h"
#include "engine/gpu/handles.h"

namespace paddle::test {
namespace {

device::Device* g_card = nullptr;  // NOLINT: the tests' only card

}  // namespace

device::Device& card() {
  PADDLE_CHECK(g_card != nullptr);
  return *g_card;
}

Status open_card() {
  if (g_card != nullptr && device::Event::make(*g_card)) return {};
  PADDLE_TRY(auto opened, card_driver().open(0));
  g_card = opened.release();
  return {};
}

}  // namespace paddle::test

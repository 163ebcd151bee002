#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

#include "reports.h"

namespace tally::experiment {
namespace {

struct Curve {
  RowIndex row;
  const char* colour;
};
// Colours that the colour-blind tell apart (Okabe, Ito).
constexpr std::array<Curve, 7> kCurves{{{kNoInaRow, "#999999"},
                                        {kPoolRow, "#56b4e9"},
                                        {kAtpAnyFreeRow, "#e69f00"},
                                        {kFcfsRow, "#cc79a7"},
                                        {kPreemptiveSilenceRow, "#009e73"},
                                        {kNoSwapRow, "#0072b2"},
                                        {kSharedRow, "#d55e00"}}};

constexpr double kWidth = 360;
constexpr double kHeight = 280;
constexpr double kLeft = 44;
constexpr double kTop = 36;
constexpr double kPlotWidth = 300;
constexpr double kPlotHeight = 200;
constexpr double kLeastShare = 0.01;

template <class... Values>
std::string element(const char* format, Values... values) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

class Panel {
 public:
  Panel(double left, double most) : left_(left + kLeft), most_(most) {}
  [[nodiscard]] double x(double share) const {
    return left_ + kPlotWidth * std::log(share / kLeastShare) / std::log(1 / kLeastShare);
  }
  [[nodiscard]] double y(double speed_up) const { return kTop + kPlotHeight * (1 - speed_up / most_); }

  [[nodiscard]] std::string axes(const std::string& title) const {
    std::string out = element("<text x='%.0f' y='20' font-weight='bold'>%s</text>\n", left_, title.c_str());
    for (int tick = 0; tick <= static_cast<int>(most_); ++tick)
      out += element(
          "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#ddd'/><text x='%.1f' y='%.1f' "
          "text-anchor='end'>%d</text>\n",
          left_, left_ + kPlotWidth, y(tick), y(tick), left_ - 6, y(tick) + 4, tick);
    for (const double share : {0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0})
      out += element("<text x='%.1f' y='%.1f' text-anchor='middle'>%.0f</text>\n", x(share),
                     kTop + kPlotHeight + 16, 100 * share);
    return out + element("<text x='%.1f' y='%.1f' text-anchor='middle'>slots, %% of the demand</text>\n",
                         left_ + kPlotWidth / 2, kTop + kPlotHeight + 34);
  }

 private:
  double left_;
  double most_;
};

std::string curve(const Grid& grid, const Panel& panel, std::span<const std::size_t> places, const Curve& c) {
  std::string points;
  std::string dots;
  for (const std::size_t place : places) {
    const double x = panel.x(grid.places[place].slots_share);
    const double y = panel.y(grid.speed_up(place, c.row, kAtpHashRow));
    points += element("%.1f,%.1f ", x, y);
    dots += element("<circle cx='%.1f' cy='%.1f' r='2.5' fill='%s'/>", x, y, c.colour);
  }
  return element("<polyline fill='none' stroke='%s' stroke-width='%s' points='", c.colour,
                 c.row == kSharedRow ? "3" : "1.5") +
         points + "'/>" + dots + "\n";
}

}  // namespace

std::string svg_of(const Grid& grid) {
  std::vector<std::string_view> servers;
  double most = 1;
  for (std::size_t i = 0; i < grid.places.size(); ++i) {
    if (std::find(servers.begin(), servers.end(), grid.places[i].server.name) == servers.end())
      servers.push_back(grid.places[i].server.name);
    for (const Curve& c : kCurves) most = std::max(most, grid.speed_up(i, c.row, kAtpHashRow));
  }
  const double width = kWidth * static_cast<double>(servers.size());
  std::string out = element(
      "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' font-family='sans-serif' "
      "font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
      width, kHeight + 40);
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const Panel panel(kWidth * static_cast<double>(s), std::ceil(most));
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < grid.places.size(); ++i)
      if (grid.places[i].server.name == servers[s]) places.push_back(i);
    out += panel.axes("speed-up over ATP (hash), r = " + std::string(servers[s]));
    for (const Curve& c : kCurves) out += curve(grid, panel, places, c);
  }
  double x = kLeft;
  for (const Curve& c : kCurves) {
    const std::string name(row_at(c.row).name);
    out += element(
        "<rect x='%.0f' y='%.0f' width='14' height='4' fill='%s'/><text x='%.0f' y='%.0f'>%s</text>\n", x,
        kHeight + 18, c.colour, x + 18, kHeight + 24, name.c_str());
    x += 34 + 6.2 * static_cast<double>(name.size());
  }
  return out + "</svg>\n";
}

}  // namespace tally::experiment

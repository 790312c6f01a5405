// linear.comp for many rows; see tile.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#define RUNS_CONSTANT 6
#include "gpu/tile.glsl"
layout(constant_id = 5) const uint BITS = 4;
#include "gpu/tile_dot.glsl"
#include "gpu/linear_tile.glsl"

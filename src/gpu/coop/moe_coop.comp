// moe_tile.comp on cooperative matrices; see coop/tile_coop.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gpu/tile.glsl"
#include "gpu/coop/tile_coop.glsl"
#include "gpu/moe_tile.glsl"

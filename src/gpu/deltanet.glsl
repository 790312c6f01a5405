// What the forms of the DeltaNet scan share, one for a few rows (deltanet.comp) and three
// dispatches for many (deltanet_rows.comp, deltanet_chain.comp, deltanet_gate.comp): what does not
// depend on the state. For a kernel with NK, NV, DK, DV.
const uint KEY_CHANNELS = NK * DK, VALUES = NV * DV, WIDTH = 2 * KEY_CHANNELS + VALUES;

gpu_segment segment;

uint key_head(uint iv)
{
    return iv / (NV / NK);
}

#ifdef KERNEL_CONSTANT
layout(constant_id = KERNEL_CONSTANT) const uint KERNEL = 4;
const uint KEEP = KERNEL - 1;

// Input of the convolution at row r of the segment, which may lie before it.
float input_at(int r, uint ch)
{
    if (r < 0)
        return F32(segment.state + p.conv_at[segment.plane] * 4ul).v[(int(KEEP) + r) * WIDTH + ch];
    return F32(p.conv).v[(segment.first + r) * WIDTH + ch];
}

float inputs[KERNEL]; // of the last convolution, its row's own behind

// silu of the convolution of a channel at row r.
float convolved(uint r, uint ch)
{
    precise float sum = 0;
    float taps[KERNEL];
    [[unroll]] for (uint t = 0; t <= KEEP; t++) {
        taps[t] = F32(p.taps).v[ch * KERNEL + t];
        inputs[t] = input_at(int(r + t) - int(KEEP), ch);
    }
    [[unroll]] for (uint t = 0; t <= KEEP; t++)
        sum = fma(taps[t], inputs[t], sum);
    return num_silu(sum);
}

// The other plane's window of a channel, as if all rows were committed: behind the convolution of
// the last, and where there is none.
void keep_inputs(uint ch)
{
    F32 to = F32(segment.state + p.conv_at[1 - segment.plane] * 4ul);
    [[unroll]] for (uint t = 0; t < KEEP; t++)
        to.v[t * WIDTH + ch] = inputs[t + 1];
}

void keep_window(uint ch)
{
    F32 to = F32(segment.state + p.conv_at[1 - segment.plane] * 4ul);
    for (uint t = 0; t < KEEP; t++)
        to.v[t * WIDTH + ch] = input_at(int(t) - int(KEEP), ch);
}

// Decay and beta of a head of row r.
vec2 gates_of(uint r, uint iv)
{
    uint at = (segment.first + r) * NV + iv;
    precise float a = F32(p.a).v[at] + F32(p.dt_bias).v[iv];
    precise float power = -num_exp(F32(p.a_log).v[iv]) * softplus(a);
    return vec2(num_exp(power), num_sigmoid(F32(p.b).v[at]));
}

// What brings a query or key to its length, but for unit_root. sum: of an invocation's squares.
float unit_scale(float sum)
{
    precise float all = fold_sum(sum) + 1e-6;
    return inverse_root(all);
}

float unit_root(bool key)
{
    precise float root = key ? 1.0 : 1 / sqrt(float(DK));
    return root;
}
#endif

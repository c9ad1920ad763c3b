/* x * sigmoid(z), z = x (SiLU) or the argument of GELU's tanh, doubled. */
__device__ __forceinline__ float gate_of(float x)
{
    constexpr float LOG2_E = 1.4426950408889634f;
//% if GATE == "gelu" then
    float cube = __fmul_rn(__fmul_rn(x, x), x);
    float z = __fmul_rn(1.5957691216057308f, __fmaf_rn(0.044715f, cube, x));
//% else
    float z = x;
//% end
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(e) : "f"(__fmul_rn(z, -LOG2_E)));
    return __fmul_rn(x, __frcp_rn(__fadd_rn(1.0f, e)));
}

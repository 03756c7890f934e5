"""Groups and layers by name: llama.cpp's convention, and the names of many families of checkpoints."""

from __future__ import annotations

import gguf
import pytest

from reconciler.weights.tensor_names import GROUPS, checkpoint_place, gguf_place


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("embedding", "token_embd.weight per_layer_token_embd.weight position_embd.weight token_types.weight"),
        ("output_head", "output.weight output.bias cls.output.weight"),
        ("attention", "attn_q.weight attn_qkv.bias attn_output.weight attn_kv_a_mqa.weight attn_sinks.weight"),
        ("attention", "indexer.attn_q_b.weight"),
        ("mlp", "ffn_up.weight ffn_gate_inp.weight ffn_down_shexp.weight ffn_gate_inp_shexp.weight"),
        ("experts", "ffn_up_exps.weight ffn_gate_up_exps.weight ffn_gate_chexps.weight exp_probs_b.bias"),
        ("norms", "attn_norm.weight ffn_norm.weight output_norm.weight attn_q_a_norm.weight ssm_norm.weight"),
        ("vision", "v.blk.0.attn_q.weight v.post_ln.weight mm.input_projection.weight a.blk.0.ffn_up.weight"),
        ("vision", "vis_attn_qkv.weight"),
        ("other", "ssm_in.weight time_mix_w0.weight shortconv.conv.weight rope_freqs.weight nextn.eh_proj.weight"),
    ],
)
def test_a_tensor_of_a_gguf_file_belongs_to_a_group(group: str, names: str) -> None:
    assert {name: gguf_place(name)[0] for name in names.split()} == dict.fromkeys(names.split(), group)


def test_every_name_the_gguf_package_knows_has_a_group() -> None:
    names = [name.removeprefix("blk.{bid}.").format(bid=0) for name in gguf.TENSOR_NAMES.values()]
    assert {gguf_place(f"{name}.weight")[0] for name in names} == set(GROUPS)


def test_layers_of_gguf_files_are_those_of_the_language_model() -> None:
    names = ("blk.7.attn_q.weight", "enc.blk.3.ffn_up.weight", "output.weight", "v.blk.2.attn_q.weight")
    assert [gguf_place(name)[1] for name in names] == [7, 3, None, None]


LAYERS = "model.layers.3."
IN_LAYERS = [
    ("llama", LAYERS, "attention", "self_attn.q_proj.weight self_attn.o_proj.bias self_attn.qkv_proj.weight"),
    ("llama", LAYERS, "mlp", "mlp.gate_proj.weight mlp.down_proj.weight mlp.gate_up_proj.weight"),
    ("llama", LAYERS, "norms", "input_layernorm.weight post_attention_layernorm.weight self_attn.q_norm.weight"),
    ("mixtral", LAYERS, "experts", "block_sparse_moe.experts.7.w1.weight"),
    ("mixtral", LAYERS, "mlp", "block_sparse_moe.gate.weight"),
    ("qwen moe", LAYERS, "experts", "mlp.experts.0.gate_proj.weight mlp.experts.gate_up_proj"),
    ("qwen moe", LAYERS, "mlp", "mlp.gate.weight mlp.shared_expert.up_proj.weight mlp.shared_expert_gate.weight"),
    ("deepseek", LAYERS, "attention", "self_attn.kv_a_proj_with_mqa.weight self_attn.indexer.wq_b.weight"),
    ("deepseek", LAYERS, "norms", "self_attn.kv_a_layernorm.weight self_attn.indexer.k_norm.bias"),
    ("deepseek", LAYERS, "mlp", "mlp.shared_experts.down_proj.weight_scale_inv mlp.gate.weight"),
    ("deepseek", LAYERS, "experts", "mlp.gate.e_score_correction_bias mlp.experts.255.up_proj.weight_scale_inv"),
    ("deepseek, native", "layers.3.", "attention", "attn.wq_a.weight"),
    ("deepseek, native", "layers.3.", "experts", "ffn.experts.0.w1.scale"),
    ("deepseek", LAYERS, "other", "eh_proj.weight shared_head.head.weight embed_tokens.weight"),
    ("gpt-oss", LAYERS, "experts", "mlp.experts.gate_up_proj_blocks mlp.experts.down_proj_bias"),
    ("gpt-oss", LAYERS, "attention", "self_attn.sinks"),
    ("gpt-oss", LAYERS, "mlp", "mlp.router.weight"),
    ("llama 4", LAYERS, "experts", "feed_forward.experts.gate_up_proj"),
    ("llama 4", LAYERS, "mlp", "feed_forward.shared_expert.up_proj.weight feed_forward.router.weight"),
    ("granite moe", LAYERS, "experts", "block_sparse_moe.input_linear.weight block_sparse_moe.output_linear.weight"),
    ("granite moe", LAYERS, "mlp", "shared_mlp.input_linear.weight block_sparse_moe.router.layer.weight"),
    ("step 3", LAYERS, "experts", "moe.gate_proj.weight moe.down_proj.weight"),
    ("step 3", LAYERS, "mlp", "share_expert.gate_proj.weight moe.gate.weight"),
    ("dbrx", "transformer.blocks.3.", "attention", "norm_attn_norm.attn.Wqkv.weight"),
    ("dbrx", "transformer.blocks.3.", "norms", "norm_attn_norm.norm_1.weight"),
    ("dbrx", "transformer.blocks.3.", "experts", "ffn.experts.mlp.w1"),
    ("dbrx", "transformer.blocks.3.", "mlp", "ffn.router.layer.weight"),
    ("gpt-2", "transformer.h.3.", "attention", "attn.c_attn.weight attn.c_proj.bias"),
    ("gpt-2", "h.3.", "mlp", "mlp.c_fc.weight"),
    ("gpt-2", "h.3.", "norms", "ln_1.weight ln_2.bias"),
    ("falcon", "transformer.h.3.", "norms", "ln_attn.weight ln_mlp.bias"),
    ("falcon", "transformer.h.3.", "attention", "self_attention.query_key_value.weight"),
    ("gpt-neox", "gpt_neox.layers.3.", "attention", "attention.query_key_value.weight"),
    ("gpt-neox", "gpt_neox.layers.3.", "mlp", "mlp.dense_h_to_4h.weight"),
    ("opt", "model.decoder.layers.3.", "mlp", "fc1.weight fc2.bias"),
    ("opt", "model.decoder.layers.3.", "norms", "self_attn_layer_norm.weight final_layer_norm.bias"),
    ("olmo", "model.transformer.blocks.3.", "attention", "att_proj.weight attn_out.weight"),
    ("olmo", "model.transformer.blocks.3.", "mlp", "ff_proj.weight ff_out.weight"),
    ("internlm", LAYERS, "attention", "attention.wqkv.weight"),
    ("internlm", LAYERS, "mlp", "feed_forward.w2.weight"),
    ("internlm", LAYERS, "norms", "attention_norm.weight ffn_norm.weight"),
    ("mistral, native", "layers.3.", "mlp", "feed_forward.w1.weight"),
    ("chatglm", "transformer.encoder.layers.3.", "attention", "self_attention.query_key_value.weight"),
    ("bert", "bert.encoder.layer.3.", "attention", "attention.self.query.weight attention.output.dense.bias"),
    ("bert", "encoder.layer.3.", "mlp", "intermediate.dense.weight output.dense.weight"),
    ("bert", "encoder.layer.3.", "norms", "attention.output.LayerNorm.weight output.LayerNorm.bias"),
    ("modernbert", LAYERS, "mlp", "mlp.Wi.weight"),
    ("t5", "encoder.block.3.", "attention", "layer.0.SelfAttention.q.weight layer.1.EncDecAttention.k.weight"),
    ("t5", "encoder.block.3.", "mlp", "layer.1.DenseReluDense.wi_0.weight"),
    ("t5", "encoder.block.3.", "norms", "layer.0.layer_norm.weight"),
    ("mamba", "backbone.layers.3.", "other", "mixer.in_proj.weight mixer.A_log mixer.conv1d.bias"),
    ("mamba", "backbone.layers.3.", "norms", "norm.weight mixer.norm.weight"),
    ("nemotron-h", "backbone.layers.3.", "attention", "mixer.q_proj.weight mixer.o_proj.weight"),
    ("nemotron-h", "backbone.layers.3.", "mlp", "mixer.up_proj.weight mixer.shared_experts.down_proj.weight"),
    ("nemotron-h", "backbone.layers.3.", "experts", "mixer.experts.5.up_proj.weight"),
    ("jamba", LAYERS, "other", "mamba.x_proj.weight mamba.D"),
    ("jamba", LAYERS, "experts", "feed_forward.experts.3.gate_proj.weight"),
    ("falcon-h1", LAYERS, "other", "mamba.in_proj.weight"),
    ("zamba 2", LAYERS, "other", "mamba_decoder.mamba.in_proj.weight"),
    ("zamba 2", LAYERS, "mlp", "shared_transformer.feed_forward.gate_up_proj.weight"),
    ("qwen3-next", LAYERS, "other", "linear_attn.in_proj_qkvz.weight linear_attn.dt_bias linear_attn.A_log"),
    ("qwen3-next", LAYERS, "norms", "linear_attn.norm.weight"),
    ("lfm2", LAYERS, "other", "conv.in_proj.weight conv.conv.weight"),
    ("lfm2", LAYERS, "norms", "operator_norm.weight"),
    ("awq", LAYERS, "attention", "self_attn.q_proj.qweight self_attn.q_proj.qzeros self_attn.q_proj.scales"),
    ("gptq", LAYERS, "mlp", "mlp.up_proj.g_idx mlp.down_proj.qweight"),
    ("compressed-tensors", LAYERS, "mlp", "mlp.up_proj.weight_packed mlp.up_proj.weight_scale"),
    ("bitsandbytes", LAYERS, "mlp", "mlp.up_proj.weight.absmax mlp.up_proj.weight.quant_state.bitsandbytes__nf4"),
    ("peft", "base_model.model.model.layers.3.", "attention", "self_attn.q_proj.lora_A.weight"),
    ("nested", "model.language_model.layers.3.", "mlp", "mlp.up_proj.weight"),
    ("nested", "language_model.model.layers.3.", "attention", "cross_attn.q_proj.weight"),
    ("phi-4 multimodal", LAYERS, "attention", "self_attn.qkv_proj.lora_A.vision.weight"),
]


@pytest.mark.parametrize(("family", "prefix", "group", "names"), IN_LAYERS)
def test_a_tensor_in_a_layer_belongs_to_a_group(family: str, prefix: str, group: str, names: str) -> None:
    found = {name: checkpoint_place(prefix + name) for name in names.split()}
    assert found == dict.fromkeys(names.split(), (group, 3)), family


OUTSIDE = [
    ("embedding", "model.embed_tokens.weight transformer.wte.weight wpe.weight gpt_neox.embed_in.weight shared.weight"),
    ("embedding", "backbone.embeddings.weight tok_embeddings.weight bert.embeddings.word_embeddings.weight"),
    ("embedding", "model.language_model.embed_tokens_per_layer.weight transformer.word_embeddings.weight"),
    ("output_head", "lm_head.weight embed_out.weight transformer.output_layer.weight output.weight score.weight"),
    ("output_head", "classifier.bias language_model.lm_head.weight cls.predictions.decoder.weight head.weight"),
    ("norms", "model.norm.weight transformer.ln_f.bias gpt_neox.final_layer_norm.weight backbone.norm_f.weight"),
    ("norms", "transformer.word_embeddings_layernorm.weight bert.embeddings.LayerNorm.weight emb_ln.weight"),
    ("vision", "vision_tower.encoder.layers.0.self_attn.q_proj.weight model.visual.blocks.7.mlp.fc1.weight"),
    ("vision", "visual.merger.ln_q.weight multi_modal_projector.linear_1.weight mlp1.0.weight vpm.pos_embed.weight"),
    (
        "vision",
        "audio_tower.layers.3.fc1.weight model.vision_embed_tokens.img_projection.0.weight resampler.query.weight",
    ),
    ("vision", "vision_model.vision_model.encoder.layers.0.layer_norm1.weight model.connector.proj.weight"),
    ("vision", "model.embed_tokens_extend.audio_embed.encoder.encoders.0.feed_forward_in.net.0.weight"),
    ("other", "mtp.layers.0.self_attn.q_proj.weight mtp.fc.weight talker.model.layers.1.mlp.up_proj.weight"),
    ("other", "transformer.rotary_pos_emb.inv_freq model.altup_projections.0.weight bert.pooler.dense.weight"),
]


@pytest.mark.parametrize(("group", "names"), OUTSIDE)
def test_a_tensor_outside_the_layers_belongs_to_a_group(group: str, names: str) -> None:
    assert {name: checkpoint_place(name) for name in names.split()} == dict.fromkeys(names.split(), (group, None))


def test_a_name_that_nobody_knows_is_other() -> None:
    assert checkpoint_place("strange") == ("other", None)
    assert checkpoint_place("model.layers.3.strange.weight") == ("other", 3)

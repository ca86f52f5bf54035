"""Two Llamas of random weights with 4096 tokens, as Hugging Face checkpoints.

usage: make_llamas.py DIR    makes DIR/words and DIR/bytes

Of "words" every token is a word of text. "bytes" has byte-level BPE, as most models: some of
its tokens are a part of a character and have no text of their own.
"""
import itertools
import json
import pathlib
import random
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

TOKENS = 4096
CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
PARTS = [c + v for c, v in itertools.product("bcdfghjklmnprstz", "aiou")]  # 64 of them
WORDS = [a + b for a, b in itertools.product(PARTS, PARTS)]


def save(path, tokenizer, **special):
    path.mkdir(parents=True)
    torch.manual_seed(7)
    config = LlamaConfig(
        hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, head_dim=64,
        vocab_size=TOKENS, max_position_embeddings=8192, bos_token_id=0, eos_token_id=1, tie_word_embeddings=False)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    tokenizer.save(str(path / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192, "chat_template": CHAT, **special}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))


def words():
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token=WORDS[0]))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return t


def byte_level():
    rng = random.Random(3)
    lexicon = ["".join(rng.choices(PARTS, k=rng.randint(1, 4))) for _ in range(6000)]
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator((" ".join(rng.choices(lexicon, k=40)) for _ in range(4000)), trainer)
    return t


folder = pathlib.Path(sys.argv[1])
save(folder / "words", words(), unk_token=WORDS[0], eos_token=WORDS[1])
save(folder / "bytes", byte_level(), bos_token="<s>", eos_token="</s>")

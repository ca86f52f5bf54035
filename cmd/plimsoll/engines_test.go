package main

import "os"

const badEngineVar = "PLIMSOLL_TEST_ENGINE"

func badEngine() { os.Exit(99) }
